"""The operators written with torch's own, for comparison and where a gradient is needed.

Signatures and results are those of the package's functions: float32 arithmetic, one
rounding. All of them are differentiable; none works in place, so the ones whose twin
does return the new values.
"""

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6, weight_offset: float = 0.0) -> Tensor:
    """Twin of ``rms_norm``."""
    v = x.float()
    v = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps)
    return (v * (weight.float() + weight_offset)).to(x.dtype)


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6, weight_offset: float = 0.0
) -> Tuple[Tensor, Tensor]:
    """Twin of ``fused_add_rms_norm``; returns the new ``(x, residual)``."""
    residual = residual + x
    return rms_norm(residual, weight, eps, weight_offset), residual


def silu_and_mul(x: Tensor) -> Tensor:
    """Twin of ``silu_and_mul``."""
    gate, up = x.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(x.dtype)


def gelu_tanh_and_mul(x: Tensor) -> Tensor:
    """Twin of ``gelu_tanh_and_mul``."""
    gate, up = x.float().chunk(2, dim=-1)
    return (F.gelu(gate, approximate="tanh") * up).to(x.dtype)


def _rotate(t: Tensor, cos: Tensor, sin: Tensor, rotary_dim: int, interleaved: bool) -> Tensor:
    v, rest = t[..., :rotary_dim].float(), t[..., rotary_dim:]
    if interleaved:
        a, b = v[..., 0::2], v[..., 1::2]
        v = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = v.chunk(2, dim=-1)
        v = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return torch.cat((v.to(t.dtype), rest), dim=-1)


def rotary_embedding(
    positions: Tensor, q: Tensor, k: Tensor, cos_sin_cache: Tensor, rotary_dim: int, interleaved: bool = False
) -> Tuple[Tensor, Tensor]:
    """Twin of ``rotary_embedding``; returns the new ``(q, k)``."""
    inside = (positions >= 0) & (positions < cos_sin_cache.shape[0])
    if cos_sin_cache.shape[0] == 0:
        return q.clone(), k.clone()
    rows = cos_sin_cache[torch.where(inside, positions, 0).long()].float()
    cos, sin = rows.unsqueeze(-2).chunk(2, dim=-1)
    keep = ~inside[..., None, None]
    return tuple(torch.where(keep, t, _rotate(t, cos, sin, rotary_dim, interleaved)) for t in (q, k))


def qk_norm_rope(
    positions: Tensor,
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
    weight_offset: float,
    cos_sin_cache: Tensor,
    rotary_dim: int,
    interleaved: bool = False,
) -> Tuple[Tensor, Tensor]:
    """Twin of ``qk_norm_rope``; returns the new ``(q, k)``."""
    q = rms_norm(q, q_weight, eps, weight_offset)
    k = rms_norm(k, k_weight, eps, weight_offset)
    return rotary_embedding(positions, q, k, cos_sin_cache, rotary_dim, interleaved)


def instead(function, *args):
    """Calls function where the native operator refused for want of a backward pass.

    Any other refusal is the caller's mistake and is raised again. To be called while
    the NotImplementedError is handled.
    """
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return function(*args)
    raise  # noqa: PLE0704  (the error that is being handled)
