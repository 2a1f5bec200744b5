"""Prints the error of each operator against float64, by dtype and unit: errors.py

Every unit that the host has runs in a process of its own. Inputs are normal, gates also
over [-12, 12]. Errors are relative to max(1, |exact|): rounding alone costs up to half the
dtype's epsilon, 6e-8, 4.9e-4 and 3.9e-3.
"""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "python"))

import torch  # noqa: E402

import conftest  # noqa: E402
import expected  # noqa: E402
from inputs import angles  # noqa: E402

EPS = 1e-6
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def cases(ops, dtype):
    """(operator, results, exact results)"""
    g = torch.Generator().manual_seed(3)

    def rand(*shape, scale=1.0):
        return (torch.randn(*shape, generator=g) * scale).to(dtype)

    x, r, w = rand(64, 2560), rand(64, 2560), rand(2560)
    yield "rms_norm", [ops.rms_norm(x, w, EPS)], [expected.rms_norm(x, w, EPS)]
    want = expected.fused_add_rms_norm(x, r, w, EPS)
    yield "fused_add_rms_norm", ops.fused_add_rms_norm(x, r, w, EPS), want
    gate = torch.cat([torch.cat([rand(32, 6912), torch.linspace(-12, 12, 32 * 6912).view(32, 6912).to(dtype)]), rand(64, 6912)], -1)
    for op in ("silu_and_mul", "gelu_tanh_and_mul"):
        yield op, [getattr(ops, op)(gate)], [getattr(expected, op)(gate)]
    p, q, k, hw = torch.arange(64) * 31, rand(64, 16, 128), rand(64, 8, 128), rand(128)
    cache = angles(2048, 128)
    want = [expected.rotary_embedding(p, t, cache, 128, False) for t in (q, k)]
    yield "rotary_embedding", ops.rotary_embedding(p, q.clone(), k.clone(), cache, 128), want
    want = [expected.qk_norm_rope(p, t, hw, EPS, 0.0, cache, 128, False) for t in (q, k)]
    yield "qk_norm_rope", ops.qk_norm_rope(p, q.clone(), k.clone(), hw, hw, EPS, 0.0, cache, 128), want


def errors(got, exact):
    got, exact = (torch.cat([t.double().flatten() for t in ts]) for ts in (got, exact))
    off = (got - exact).abs() / exact.abs().clamp(min=1)
    return off.max().item(), off.mean().item()


def measure():
    ops = conftest.load_kernel("cpu")
    with torch.inference_mode():
        for name, dtype in DTYPES.items():
            for op, got, exact in cases(ops, dtype):
                print(json.dumps([op, name, ops.cpu_isa(), *errors(got, exact)]))


def main():
    if sys.argv[1:] == ["--measure"]:
        return measure()
    units = conftest.load_kernel("cpu").cpu_isa_choices()
    rows = []
    for unit in units:
        env = {**os.environ, "THOX_EDGE_OPS_CPU_ISA": unit}
        done = subprocess.run([sys.executable, __file__, "--measure"], env=env, check=True, stdout=subprocess.PIPE, text=True)
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    print("| op | dtype | units | largest | mean |\n| --- | --- | --- | --- | --- |")
    same = {}
    for op, dtype, unit, *numbers in rows:
        same.setdefault((op, dtype, *(f"{n:.2g}" for n in numbers)), []).append(unit)
    for (op, dtype, largest, mean), which in sorted(same.items(), key=lambda i: [r[:2] for r in rows].index(list(i[0][:2]))):
        print(f"| {op} | {dtype} | {', '.join(which) if len(which) < len(units) else 'all'} | {largest} | {mean} |")


if __name__ == "__main__":
    main()
