"""The operators as Python functions.

They check nothing themselves: rank, shape, dtype, device and overlap are
checked by the native code before it touches memory, and a violation raises
RuntimeError with what was expected and what it got. Calls are cheapest with
positional arguments.

None of them has a backward pass. Where a gradient is needed, the functions
that return a new tensor compute with ``reference`` instead; the ones that work
in place raise NotImplementedError.
"""

from typing import Optional, Tuple

from torch import Tensor
from torch.compiler import is_compiling

from . import fakes, reference, stable  # noqa: F401  (importing fakes registers them)
from ._ops import ops


class _Native:
    """One registered operator, looked up once.

    ``traced`` is what torch.compile and export understand; ``direct`` is what calling it
    comes down to, without its Python frame, or the short way to it (_eager_entries).
    """

    __slots__ = ("direct", "traced")

    def __init__(self, packet):
        self.traced = packet.default
        self.direct = stable.completed(self.traced, getattr(self.traced, "_op", self.traced))


_rms_norm = _Native(ops.rms_norm)
_rms_norm_out = _Native(ops.rms_norm_out)
_fused_add_rms_norm = _Native(ops.fused_add_rms_norm)
_silu_and_mul = _Native(ops.silu_and_mul)
_silu_and_mul_out = _Native(ops.silu_and_mul_out)
_gelu_tanh_and_mul = _Native(ops.gelu_tanh_and_mul)
_gelu_tanh_and_mul_out = _Native(ops.gelu_tanh_and_mul_out)
_rotary_embedding = _Native(ops.rotary_embedding)
_qk_norm_rope = _Native(ops.qk_norm_rope)

# On a CPU and on CUDA a plain call need not go through the dispatcher: torch-ext/eager_entry.h.
_eager_entries = hasattr(ops, "bind_eager") and ops.bind_eager(__name__)


def rms_norm(
    x: Tensor, weight: Tensor, eps: float = 1e-6, weight_offset: float = 0.0, *, out: Optional[Tensor] = None
) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * (weight + weight_offset)`` over the last dimension.

    Args:
        x: ``[..., hidden]``, any strides.
        weight: ``[hidden]``, of x's dtype.
        eps: Added to the mean square.
        weight_offset: 0 for the Llama convention, 1 for Gemma's zero-centred weights.
        out: Where to write the result: x's shape and dtype, and either x itself or
            memory apart from it.

    Returns:
        ``out``, or a new contiguous tensor.

    Source: Zhang and Sennrich, https://arxiv.org/abs/1910.07467
    """
    if out is None:
        try:
            return (_rms_norm.traced if is_compiling() else _rms_norm.direct)(x, weight, eps, weight_offset)
        except NotImplementedError:
            return reference.instead(reference.rms_norm, x, weight, eps, weight_offset)
    (_rms_norm_out.traced if is_compiling() else _rms_norm_out.direct)(out, x, weight, eps, weight_offset)
    return out


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6, weight_offset: float = 0.0
) -> Tuple[Tensor, Tensor]:
    """``residual += x``, then ``x = rms_norm(residual)``, both in place.

    The sum is rounded to the dtype before it is normalized, so the residual stream
    has the bits of eager addition.

    Args:
        x: ``[..., hidden]``; becomes the normalized sum.
        residual: Shape and dtype of x, memory apart from it; becomes the sum.
        weight: ``[hidden]``, of x's dtype.
        eps: Added to the mean square.
        weight_offset: 0 for the Llama convention, 1 for Gemma's zero-centred weights.

    Returns:
        ``(x, residual)``, the tensors that were passed.
    """
    call = _fused_add_rms_norm.traced if is_compiling() else _fused_add_rms_norm.direct
    call(x, residual, weight, eps, weight_offset)
    return x, residual


def silu_and_mul(x: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """``silu(gate) * up`` for ``x = [gate | up]``, with ``silu(g) = g * sigmoid(g)``.

    Args:
        x: ``[..., 2 * width]``, any strides.
        out: Where to write the result: ``[..., width]`` of x's dtype, apart from x.

    Returns:
        ``out``, or a new contiguous tensor ``[..., width]``.

    Source: Shazeer, https://arxiv.org/abs/2002.05202
    """
    if out is None:
        try:
            return (_silu_and_mul.traced if is_compiling() else _silu_and_mul.direct)(x)
        except NotImplementedError:
            return reference.instead(reference.silu_and_mul, x)
    (_silu_and_mul_out.traced if is_compiling() else _silu_and_mul_out.direct)(out, x)
    return out


def gelu_tanh_and_mul(x: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """``gelu(gate) * up`` for ``x = [gate | up]``, with the tanh approximation of GELU.

    Args:
        x: ``[..., 2 * width]``, any strides.
        out: Where to write the result: ``[..., width]`` of x's dtype, apart from x.

    Returns:
        ``out``, or a new contiguous tensor ``[..., width]``.

    Source: Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415
    """
    if out is None:
        try:
            return (_gelu_tanh_and_mul.traced if is_compiling() else _gelu_tanh_and_mul.direct)(x)
        except NotImplementedError:
            return reference.instead(reference.gelu_tanh_and_mul, x)
    (_gelu_tanh_and_mul_out.traced if is_compiling() else _gelu_tanh_and_mul_out.direct)(out, x)
    return out


def rotary_embedding(
    positions: Tensor, q: Tensor, k: Tensor, cos_sin_cache: Tensor, rotary_dim: int, interleaved: bool = False
) -> Tuple[Tensor, Tensor]:
    """Rotates the first ``rotary_dim`` coordinates of every head of q and k, in place.

    With c and s the cached cosine and sine, a pair ``(a, b)`` becomes
    ``(a c - b s, b c + a s)``. A token whose position lies outside the cache is left
    as it is.

    Args:
        positions: int64 or int32, one per token: the leading dimensions of q.
        q: ``[..., q_heads, head_dim]``, for example ``[tokens, heads, head_dim]``; a
            view into a packed projection is fine.
        k: ``[..., k_heads, head_dim]``, of q's dtype, memory apart from q.
        cos_sin_cache: ``[max_position, rotary_dim]``, float32 or q's dtype: the cosines
            of all pairs, then the sines.
        rotary_dim: Even, at most head_dim.
        interleaved: Pairs are ``(2i, 2i + 1)`` as in GPT-J, instead of
            ``(i, i + rotary_dim / 2)`` as in GPT-NeoX and Llama.

    Returns:
        ``(q, k)``, the tensors that were passed.

    Source: Su et al., https://arxiv.org/abs/2104.09864
    """
    call = _rotary_embedding.traced if is_compiling() else _rotary_embedding.direct
    call(positions, q, k, cos_sin_cache, rotary_dim, interleaved)
    return q, k


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
    """The attention prologue of Qwen 3 and Gemma 3: RMSNorm of every head, then rotary
    embedding, in place.

    The normalized heads are rounded to the dtype before they are rotated, as in those
    models, so the result has the bits of ``rms_norm`` followed by ``rotary_embedding``.
    A token whose position lies outside the cache is normalized and not rotated.

    Args:
        positions, q, k, cos_sin_cache, rotary_dim, interleaved: As in ``rotary_embedding``.
        q_weight, k_weight: ``[head_dim]``, of q's dtype.
        eps: Added to the mean square.
        weight_offset: 0 for the Qwen convention, 1 for Gemma's zero-centred weights.

    Returns:
        ``(q, k)``, the tensors that were passed.
    """
    call = _qk_norm_rope.traced if is_compiling() else _qk_norm_rope.direct
    call(positions, q, k, q_weight, k_weight, eps, weight_offset, cos_sin_cache, rotary_dim, interleaved)
    return q, k


def cpu_isa() -> str:
    """The name of the code that runs: "baseline", "avx2", "avx512", "avx512_bf16", or
    "cuda" in a CUDA build.

    The environment variable THOX_EDGE_OPS_CPU_ISA forces one, read at the first call of
    any operator. RuntimeError where this host does not offer it.
    """
    return ops.isa()


def cpu_isa_choices() -> Tuple[str, ...]:
    """What THOX_EDGE_OPS_CPU_ISA accepts on this host, slowest first."""
    return tuple(ops.isa_choices().split(", "))
