"""The operators on a device against the package's own reference on the CPU.

mac_check.py mps|cpu. The reference runs on float32 copies on the CPU, because
MPS has no float64. Prints what was compared; exits with 1 at a difference.
"""

import itertools
import sys

import torch

import thox_edge_ops as ops
from thox_edge_ops import reference

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
checked = failed = 0


def close(what, got, want):
    global checked, failed
    checked += 1
    t = TOLERANCE[got.dtype]
    try:
        torch.testing.assert_close(got.cpu().float(), want.float(), rtol=t, atol=t)
    except AssertionError as e:
        failed += 1
        print(f"FAIL {what}: {e}")


def strided(t, kind):
    """A copy of t in memory of its own, with other strides or another offset."""
    if kind == "contiguous":
        return t.clone()
    if kind == "offset":  # a storage offset that no vector is aligned to
        base = t.new_zeros(t.numel() + 3)
        base[3:] = t.reshape(-1)
        return base[3:].view(t.shape)
    base = t.new_zeros(*t.shape[:-1], t.shape[-1] + 13)
    base[..., 5:-8] = t
    return base[..., 5:-8]


def main(device):
    torch.manual_seed(0)
    dtypes, kinds = list(TOLERANCE), ["contiguous", "offset", "wide"]
    for dtype, kind in itertools.product(dtypes, kinds):
        for rows, cols in [(1, 37), (7, 64), (1, 1024), (64, 2560), (3, 9001)]:
            x, w, r = torch.randn(rows, cols).to(dtype), torch.randn(cols).to(dtype), torch.randn(rows, cols).to(dtype)
            name = f"{dtype} {kind} {rows}x{cols}"
            dx = strided(x.to(device), kind)
            close("rms_norm " + name, ops.rms_norm(dx, w.to(device), 1e-6, 1.0), reference.rms_norm(x, w, 1e-6, 1.0))
            dr = strided(r.to(device), kind)
            ops.fused_add_rms_norm(dx, dr, w.to(device), 1e-6, 0.0)
            close("fused_add_rms_norm " + name, dx, reference.rms_norm(x + r, w, 1e-6, 0.0))
            close("residual " + name, dr, x + r)
            g = torch.randn(rows, 2 * cols).to(dtype)
            for op in ("silu_and_mul", "gelu_tanh_and_mul"):
                close(f"{op} {name}", getattr(ops, op)(strided(g.to(device), kind)), getattr(reference, op)(g))
        for (dim, rotary), pairs, int32 in itertools.product([(64, 64), (128, 64), (10, 6)], (False, True), (False, True)):
            cache = torch.randn(32, rotary)
            positions = torch.tensor([3, 0, 31, 32, -1, 17], dtype=torch.int32 if int32 else torch.int64)
            q, k = torch.randn(6, 3, dim).to(dtype), torch.randn(6, 2, dim).to(dtype)
            qw, kw = torch.randn(dim).to(dtype), torch.randn(dim).to(dtype)
            name = f"{dtype} {kind} {dim}/{rotary} {'pairs' if pairs else 'halves'}"
            for op, extra in (("rotary_embedding", ()), ("qk_norm_rope", (qw, kw, 1e-6, 0.0))):
                dq, dk = strided(q.to(device), kind), strided(k.to(device), kind)
                device_extra = [e.to(device) if isinstance(e, torch.Tensor) else e for e in extra]
                getattr(ops, op)(positions.to(device), dq, dk, *device_extra, cache.to(device), rotary, pairs)
                wq, wk = getattr(reference, op)(positions, q, k, *extra, cache, rotary, pairs)
                close(f"{op} q {name}", dq, wq)
                close(f"{op} k {name}", dk, wk)
    print(f"{checked} comparisons on {device}, {failed} failed")
    return failed != 0 or checked == 0


sys.exit(main(*sys.argv[1:]))
