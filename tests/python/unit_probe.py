"""Runs every operator on fixed inputs and saves the results: unit_probe.py FILE.

A process of its own, because THOX_EDGE_OPS_CPU_ISA is read once per process.
"""

import sys

import torch

from conftest import load_kernel
from inputs import DTYPES, EPS, angles, rand


def results(ops):
    """{name: tensor} over dtypes, lengths with and without a tail, and layouts."""
    torch.manual_seed(1)
    out = {}
    for dtype in DTYPES:
        for hidden in (37, 1024, 2560):
            x, residual, w = rand(9, hidden, dtype=dtype), rand(9, hidden, dtype=dtype), rand(hidden, dtype=dtype)
            key = f"{dtype} {hidden}"
            out[f"rms_norm {key}"] = ops.rms_norm(x, w, EPS, 1.0)
            ops.fused_add_rms_norm(x, residual, w, EPS)
            out[f"fused_add_rms_norm {key}"], out[f"residual {key}"] = x, residual
        gate = torch.cat([rand(7, 6001, scale=4), rand(7, 6001)], -1).to(dtype)
        out[f"silu_and_mul {dtype}"] = ops.silu_and_mul(gate)
        out[f"gelu_tanh_and_mul {dtype}"] = ops.gelu_tanh_and_mul(gate)
        for interleaved in (False, True):
            for dim, rotary in ((128, 128), (80, 20)):
                q, k = rand(6, 4, dim, dtype=dtype), rand(6, 2, dim, dtype=dtype)
                w, p = rand(dim, dtype=dtype), torch.tensor([0, 3, -1, 7, 8, 1])
                for cache_dtype in {torch.float32, dtype}:
                    cache = angles(8, rotary, dtype=cache_dtype)
                    key = f"{dtype} {dim} {rotary} {interleaved} {cache_dtype}"
                    for op, args in (
                        ("rotary_embedding", (cache, rotary, interleaved)),
                        ("qk_norm_rope", (w, w, EPS, 1.0, cache, rotary, interleaved)),
                    ):
                        turned = getattr(ops, op)(p, q.clone(), k.clone(), *args)
                        out[f"{op} q {key}"], out[f"{op} k {key}"] = turned
    # Every 16-bit number through the loads and the stores, special ones included.
    for dtype in (torch.float16, torch.bfloat16):
        every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
        out[f"loads {dtype}"] = ops.silu_and_mul(torch.cat([every, torch.ones_like(every)]))
        a, b = every.view(256, 256), every.flip(0).roll(77).view(256, 256)
        x, residual = a.clone(), b.clone()
        ops.fused_add_rms_norm(x, residual, torch.ones(256, dtype=dtype), EPS)
        out[f"stores {dtype}"] = residual
    return out


def build(ops):
    """The name of the extension, which is a digest of what it was built from."""
    return sys.modules[ops.__name__ + "._ops"].add_op_namespace_prefix("")


if __name__ == "__main__":
    with torch.inference_mode():
        ops = load_kernel("cpu")
        torch.save({"isa": ops.cpu_isa(), "build": build(ops), "results": results(ops)}, sys.argv[1])
