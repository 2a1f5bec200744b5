"""Random inputs for the suite."""

import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
EPS = 1e-6


def name(dtype):
    """A dtype as a test id."""
    return str(dtype).removeprefix("torch.")


def rand(*shape, dtype=torch.float32, device="cpu", scale=1.0):
    """Normal values; drawn on the CPU so that every device sees the same."""
    return (torch.randn(*shape) * scale).to(dtype).to(device)


def angles(positions, rotary_dim, dtype=torch.float32, device="cpu"):
    """A cos_sin_cache of the usual frequencies."""
    frequencies = 10000.0 ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)
    angle = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    return torch.cat([angle.cos(), angle.sin()], -1).to(dtype).to(device)


class Guarded:
    """A tensor inside a larger buffer, at an address that is no multiple of a
    vector, with a margin on both sides that nobody may touch."""

    MARGIN = 67  # odd, so also the dtype's natural alignment is all there is

    def __init__(self, values):
        numel = values.numel()
        self._buffer = torch.full((numel + 2 * self.MARGIN,), 123.0, dtype=values.dtype, device=values.device)
        self.tensor = self._buffer[self.MARGIN : self.MARGIN + numel].view(values.shape)
        self.tensor.copy_(values)

    def check(self):
        """Fails where the margin was written to."""
        margin = torch.cat([self._buffer[: self.MARGIN], self._buffer[-self.MARGIN :]])
        assert (margin == 123.0).all(), "wrote outside of the tensor"
