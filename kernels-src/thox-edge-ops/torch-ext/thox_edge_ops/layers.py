"""Layers that ``kernels.kernelize`` puts in the place of a model's own.

kernelize keeps the model's module with its attributes and exchanges ``forward``, so each
class names the attributes that it expects. None has a backward pass: with
``Mode.TRAINING`` kernelize keeps the original layer. They return new tensors like the
layers they replace, except where it says otherwise.
"""

import torch
from torch import Tensor, nn

from .functions import gelu_tanh_and_mul, qk_norm_rope, rms_norm, rotary_embedding, silu_and_mul

__all__ = [
    "GELUTanhAndMul",
    "GeluTanhAndMul",
    "GemmaRMSNorm",
    "QKNormRotary",
    "RMSNorm",
    "RotaryEmbedding",
    "RotaryPosEmb",
    "SiluAndMul",
]


class RMSNorm(nn.Module):
    """Llama, Qwen, Mistral: ``weight`` and ``variance_epsilon``."""

    has_backward = False
    can_torch_compile = True

    weight: Tensor
    variance_epsilon: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, self.weight, self.variance_epsilon)


class GemmaRMSNorm(nn.Module):
    """Gemma: a zero-centred ``weight``, and ``eps``."""

    has_backward = False
    can_torch_compile = True

    weight: Tensor
    eps: float

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps, 1.0)


class SiluAndMul(nn.Module):
    """``silu(gate) * up`` of ``[gate | up]``."""

    has_backward = False
    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        return silu_and_mul(x)


class GeluTanhAndMul(nn.Module):
    """``gelu_tanh(gate) * up`` of ``[gate | up]``."""

    has_backward = False
    can_torch_compile = True

    def forward(self, x: Tensor) -> Tensor:
        return gelu_tanh_and_mul(x)


# The name that the activation kernels of the Hub use.
GELUTanhAndMul = GeluTanhAndMul


class RotaryEmbedding(nn.Module):
    """A module with ``cos_sin_cache`` and ``rotary_dim``, called with positions, q and k
    as ``rotary_embedding`` takes them; returns rotated copies (GPT-NeoX pairing)."""

    has_backward = False
    can_torch_compile = True

    cos_sin_cache: Tensor
    rotary_dim: int

    def forward(self, positions: Tensor, q: Tensor, k: Tensor):
        return rotary_embedding(positions, q.clone(), k.clone(), self.cos_sin_cache, self.rotary_dim)


class RotaryPosEmb(nn.Module):
    """The function ``apply_rotary_pos_emb`` of transformers: q and k
    ``[batch, heads, tokens, head_dim]`` (or the transposed layout with
    ``unsqueeze_dim=2``), cos and sin ``[batch, tokens, rotary_dim]`` with both halves
    alike. Returns rotated copies."""

    has_backward = False
    can_torch_compile = True

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1):
        rotary_dim = cos.shape[-1]
        half = rotary_dim // 2
        # One row of the cache for each token of the batch.
        cache = torch.cat((cos[..., :half], sin[..., :half]), dim=-1).reshape(-1, rotary_dim)
        q, k = q.clone(), k.clone()
        heads_last = (q, k) if unsqueeze_dim == 2 else (q.transpose(1, 2), k.transpose(1, 2))
        batch, tokens = heads_last[0].shape[:2]
        positions = torch.arange(batch * tokens, device=q.device).view(batch, tokens)
        if cache.shape[0] != batch * tokens:  # one row of angles for the whole batch
            positions = positions.remainder(cache.shape[0])
        rotary_embedding(positions, *heads_last, cache, rotary_dim)
        return q, k


class QKNormRotary(nn.Module):
    """The prologue of Qwen 3 (``weight_offset`` 0) and Gemma 3 (1): a module with
    ``q_weight``, ``k_weight``, ``eps``, ``weight_offset``, ``cos_sin_cache`` and
    ``rotary_dim``, called with positions, q and k as ``qk_norm_rope`` takes them; returns
    new tensors."""

    has_backward = False
    can_torch_compile = True

    q_weight: Tensor
    k_weight: Tensor
    eps: float
    weight_offset: float
    cos_sin_cache: Tensor
    rotary_dim: int

    def forward(self, positions: Tensor, q: Tensor, k: Tensor):
        return qk_norm_rope(
            positions,
            q.clone(),
            k.clone(),
            self.q_weight,
            self.k_weight,
            self.eps,
            self.weight_offset,
            self.cos_sin_cache,
            self.rotary_dim,
        )
