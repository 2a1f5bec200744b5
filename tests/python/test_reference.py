"""The package's eager reference against the same formulas, and its gradients."""

import pytest
import torch

import expected
from expected import assert_close
from inputs import DTYPES, EPS, angles, name, rand

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=name)


@dtypes
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_norms(ops, device, dtype, offset):
    x, residual = rand(3, 37, dtype=dtype, device=device), rand(3, 37, dtype=dtype, device=device)
    w = rand(37, dtype=dtype, device=device)
    assert_close(ops.reference.rms_norm(x, w, EPS, offset), expected.rms_norm(x, w, EPS, offset))
    got, total = ops.reference.fused_add_rms_norm(x, residual, w, EPS, offset)
    want, want_total = expected.fused_add_rms_norm(x, residual, w, EPS, offset)
    assert torch.equal(total, want_total)
    assert_close(got, want)


@dtypes
@pytest.mark.parametrize("gate", ["silu_and_mul", "gelu_tanh_and_mul"])
def test_gates(ops, device, dtype, gate):
    x = rand(3, 74, dtype=dtype, device=device)
    assert_close(getattr(ops.reference, gate)(x), getattr(expected, gate)(x))


@dtypes
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_and_prologue(ops, device, dtype, interleaved):
    q, k, w = rand(4, 2, 40, dtype=dtype, device=device), rand(4, 1, 40, dtype=dtype, device=device), rand(40)
    w = w.to(dtype).to(device)
    positions, cache = torch.tensor([0, -1, 9, 7], device=device), angles(8, 20, device=device)
    got = ops.reference.rotary_embedding(positions, q, k, cache, 20, interleaved)
    for t, g in zip((q, k), got):
        assert_close(g, expected.rotary_embedding(positions, t, cache, 20, interleaved))
    got = ops.reference.qk_norm_rope(positions, q, k, w, w, EPS, 1.0, cache, 20, interleaved)
    for t, g in zip((q, k), got):
        assert_close(g, expected.qk_norm_rope(positions, t, w, EPS, 1.0, cache, 20, interleaved))


@pytest.mark.grad
def test_gradients(ops, device):
    """gradcheck needs float64, which the reference's float32 arithmetic is not; so the
    gradients are compared with those of the formulas."""
    x, w = rand(3, 40, device=device).requires_grad_(), rand(40, device=device).requires_grad_()
    for fn, want in (
        (lambda: ops.reference.rms_norm(x, w, EPS), lambda: expected.rms_norm(x, w, EPS)),
        (lambda: ops.reference.silu_and_mul(x), lambda: expected.silu_and_mul(x)),
        (lambda: ops.reference.gelu_tanh_and_mul(x), lambda: expected.gelu_tanh_and_mul(x)),
    ):
        y = fn()
        cotangent = torch.randn_like(y)
        got = torch.autograd.grad(y, (x, w), cotangent, allow_unused=True)
        exact = torch.autograd.grad(want(), (x, w), cotangent.double(), allow_unused=True)
        for g, e in zip(got, exact):
            assert (g is None) == (e is None)
            if g is not None:
                torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-5)
