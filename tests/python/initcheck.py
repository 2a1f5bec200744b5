"""Every kernel of the CUDA backend once, with inputs and results that travel by copy.

For compute-sanitizer's initcheck, which sees only the writes of kernels that it watches:

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool initcheck \\
        --kernel-name kernel_substring=thox_edge_ops python tests/python/initcheck.py

A read of memory that no copy filled, or a result that was not written in full, is
reported. The values are compared with the formulas too.
"""

import itertools

import torch

import conftest
import expected
from expected import assert_close
from inputs import DTYPES, EPS, angles, rand


def norms(ops):
    for dtype, (rows, hidden) in itertools.product(
        DTYPES, [(1, 37), (3, 64), (5, 1000), (2, 1024), (64, 4096), (2, 8192), (2, 16384), (2, 33000), (2, 40000), (9000, 2048), (6500, 1024), (6500, 1280)]
    ):
        x, residual, w = rand(rows, hidden, dtype=dtype), rand(rows, hidden, dtype=dtype), rand(hidden, dtype=dtype)
        assert_close(ops.rms_norm(x.cuda(), w.cuda(), EPS).cpu()[:3], expected.rms_norm(x[:3], w, EPS))
        got, total = ops.fused_add_rms_norm(x.cuda(), residual.cuda(), w.cuda(), EPS)
        assert_close(got.cpu()[:3], expected.fused_add_rms_norm(x[:3], residual[:3], w, EPS)[0])
        assert torch.equal(total.cpu(), x + residual)


def gates(ops):
    for dtype, (rows, width), gate in itertools.product(
        DTYPES, [(1, 3), (2, 37), (3, 1024), (300, 6912)], ["silu_and_mul", "gelu_tanh_and_mul"]
    ):
        x = rand(rows, 2 * width, dtype=dtype)
        assert_close(getattr(ops, gate)(x.cuda()).cpu()[:3], getattr(expected, gate)(x[:3]))


def rotations(ops):
    for dtype, (dim, rotary), interleaved, float_cache in itertools.product(
        DTYPES, [(64, 64), (128, 128), (256, 256), (128, 64), (80, 20), (10, 6), (512, 512), (640, 640)], [False, True], [False, True]
    ):
        q, k, w = rand(5, 3, dim, dtype=dtype), rand(5, 2, dim, dtype=dtype), rand(dim, dtype=dtype)
        positions = torch.tensor([0, 7, -1, 8, 3])
        cache = angles(8, rotary, dtype=torch.float32 if float_cache else dtype)
        for op in ("rotary_embedding", "qk_norm_rope"):
            a, b = q.cuda(), k.cuda()
            if op == "rotary_embedding":
                ops.rotary_embedding(positions.cuda(), a, b, cache.cuda(), rotary, interleaved)
                want = [expected.rotary_embedding(positions, t, cache, rotary, interleaved) for t in (q, k)]
            else:
                ops.qk_norm_rope(positions.cuda(), a, b, w.cuda(), w.cuda(), EPS, 1.0, cache.cuda(), rotary, interleaved)
                want = [expected.qk_norm_rope(positions, t, w, EPS, 1.0, cache, rotary, interleaved) for t in (q, k)]
            assert_close(a.cpu(), want[0]), assert_close(b.cpu(), want[1])


if __name__ == "__main__":
    with torch.inference_mode():
        kernel = conftest.load_kernel("cuda")
        norms(kernel), gates(kernel), rotations(kernel)
    print("all values are right")
