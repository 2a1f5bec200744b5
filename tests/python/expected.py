"""What the operators should give, in float64 and written from their formulas.

Independent of the package's own `reference`, which is tested against this too.
All functions take and return tensors of any dtype as float64, and change
nothing in place.
"""

import torch

# Against the exact result, relative to max(1, |value|): float32 arithmetic and
# one rounding to the dtype.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def assert_close(got, want, dtype=None):
    """Compares with the dtype's tolerance; want is float64."""
    tolerance = TOLERANCE[dtype or got.dtype]
    torch.testing.assert_close(got.double(), want.to(got.device), rtol=tolerance, atol=tolerance)


def rms_norm(x, weight, eps, weight_offset=0.0):
    x, weight = x.double(), weight.double()
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * (weight + weight_offset)


def fused_add_rms_norm(x, residual, weight, eps, weight_offset=0.0):
    """The sum is rounded to the dtype first: eager addition does that."""
    total = x + residual
    return rms_norm(total, weight, eps, weight_offset), total


def silu_and_mul(x):
    gate, up = x.double().chunk(2, -1)
    return gate / (1 + torch.exp(-gate)) * up


def gelu_tanh_and_mul(x):
    gate, up = x.double().chunk(2, -1)
    z = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    # (1 + tanh z) / 2, without the cancellation for large negative z.
    return gate / (1 + torch.exp(-2 * z)) * up


def rotary_embedding(positions, heads, cache, rotary_dim, interleaved):
    """For q or k alone: heads [..., n, head_dim], positions [...]."""
    out = heads.double().clone()
    half = rotary_dim // 2
    flat = out.reshape(-1, *heads.shape[-2:])
    for token, position in enumerate(positions.reshape(-1).tolist()):
        if not 0 <= position < cache.shape[0]:
            continue
        cos, sin = cache[position, :half].double(), cache[position, half:].double()
        if interleaved:
            a, b = flat[token, :, 0:rotary_dim:2].clone(), flat[token, :, 1:rotary_dim:2].clone()
            flat[token, :, 0:rotary_dim:2], flat[token, :, 1:rotary_dim:2] = a * cos - b * sin, b * cos + a * sin
        else:
            a, b = flat[token, :, :half].clone(), flat[token, :, half:rotary_dim].clone()
            flat[token, :, :half], flat[token, :, half:rotary_dim] = a * cos - b * sin, b * cos + a * sin
    return flat.reshape(heads.shape)


def qk_norm_rope(positions, heads, weight, eps, weight_offset, cache, rotary_dim, interleaved):
    """For q or k alone; the normalized heads are rounded to the dtype."""
    normed = rms_norm(heads, weight, eps, weight_offset).to(heads.dtype)
    return rotary_embedding(positions, normed, cache, rotary_dim, interleaved)
