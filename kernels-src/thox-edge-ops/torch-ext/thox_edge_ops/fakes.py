"""What the operators give for tensors without data, so that torch.compile and
export trace through them. Nothing here computes."""

import torch

from ._ops import add_op_namespace_prefix


def refuse_gradients(name, *tensors):
    """Raise NotImplementedError where a result would have to carry a gradient."""
    if torch.is_grad_enabled() and any(getattr(t, "requires_grad", False) for t in tensors):
        raise NotImplementedError(
            f"{name} has no backward pass, but an input requires a gradient; call it under "
            "torch.no_grad() or torch.inference_mode(), or use the functions of `reference`"
        )


def _check(name, *tensors):
    # What the operators refuse when they run and nobody would notice here: tensors
    # of several devices, one of which may be "meta", and gradients. A traced graph
    # has detached its inputs when it runs, and would return results without one.
    devices = sorted({str(t.device) for t in tensors})
    if len(devices) > 1:
        raise RuntimeError(f"{name}: expected all tensors on one device, got {', '.join(devices)}")
    refuse_gradients(name, *tensors)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _rms_norm(x, weight, eps, weight_offset):
    _check("rms_norm", x, weight)
    return x.new_empty(x.shape)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_out"))
def _rms_norm_out(out, x, weight, eps, weight_offset):
    _check("rms_norm_out", out, x, weight)


@torch.library.register_fake(add_op_namespace_prefix("fused_add_rms_norm"))
def _fused_add_rms_norm(x, residual, weight, eps, weight_offset):
    _check("fused_add_rms_norm", x, residual, weight)


def _gated(x):
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.register_fake(add_op_namespace_prefix("silu_and_mul"))
def _silu_and_mul(x):
    _check("silu_and_mul", x)
    return _gated(x)


@torch.library.register_fake(add_op_namespace_prefix("silu_and_mul_out"))
def _silu_and_mul_out(out, x):
    _check("silu_and_mul_out", out, x)


@torch.library.register_fake(add_op_namespace_prefix("gelu_tanh_and_mul"))
def _gelu_tanh_and_mul(x):
    _check("gelu_tanh_and_mul", x)
    return _gated(x)


@torch.library.register_fake(add_op_namespace_prefix("gelu_tanh_and_mul_out"))
def _gelu_tanh_and_mul_out(out, x):
    _check("gelu_tanh_and_mul_out", out, x)


@torch.library.register_fake(add_op_namespace_prefix("rotary_embedding"))
def _rotary_embedding(positions, q, k, cos_sin_cache, rotary_dim, interleaved):
    _check("rotary_embedding", q, k, cos_sin_cache, positions)


@torch.library.register_fake(add_op_namespace_prefix("qk_norm_rope"))
def _qk_norm_rope(positions, q, k, q_weight, k_weight, eps, weight_offset, cos_sin_cache, rotary_dim, interleaved):
    _check("qk_norm_rope", q, k, q_weight, k_weight, cos_sin_cache, positions)
