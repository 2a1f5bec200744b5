"""Load the published kernel at its pinned revision and run its six operators.

Usage: load.py REPO LOCK. LOCK is the thoxbuild.lock that `thoxbuild publish`
wrote; HF_ENDPOINT names the Hub. The `kernels` library is used as released.
For each operator the script prints the largest error against the eager
reference, relative to the size of the values, and how many times faster one
call on one token is. It fails when an error exceeds the documented tolerance.
"""

import json
import sys
import time

import torch
from kernels import get_kernel

TOLERANCE = 1e-5  # fp32, against the eager reference


def pinned_revision(lock_path: str, repo: str) -> str:
    """The commit that the lock file pins for a repository."""
    with open(lock_path, encoding="utf-8") as f:
        lock = json.load(f)
    for entry in lock["kernels"]:
        if entry["repo"] == repo:
            return entry["revision"]
    raise SystemExit(f"load.py: {lock_path} pins no revision of {repo}")


def microseconds(call, blocks: int = 30, calls: int = 50) -> float:
    """The fastest block's mean time per call, after a warm-up."""
    for _ in range(20):
        call()
    best = float("inf")
    for _ in range(blocks):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def cases(ops):
    """Yields (name, kernel call, eager call); each call returns its tensors.

    Shapes are those of one decoded token of Qwen3-0.6B.
    """
    ref = ops.reference
    g = torch.Generator().manual_seed(0)

    def rand(*shape):
        return torch.randn(*shape, generator=g)

    hidden, inter, q_heads, k_heads, dim = 1024, 3072, 16, 8, 128
    x, res, w, gate = rand(1, hidden), rand(1, hidden), rand(hidden), rand(1, 2 * inter)
    q, k = rand(1, q_heads, dim), rand(1, k_heads, dim)
    # In-place calls are repeated on the same tensors; weights of one keep them bounded.
    ones = torch.ones(dim)
    pos = torch.tensor([7])
    angle = torch.outer(torch.arange(64.0), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
    cache = torch.cat([angle.cos(), angle.sin()], dim=-1)

    def pair(fn, *tensors, args):
        def call():
            out = fn(*tensors, *args)
            return out if out is not None else tensors
        return call

    yield "rms_norm", pair(ops.rms_norm, x, args=(w, 1e-6)), pair(ref.rms_norm, x, args=(w, 1e-6))
    for name, operands, args in (
        ("fused_add_rms_norm", (x, res), (w, 1e-6)),
        ("silu_and_mul", (gate,), ()),
        ("gelu_tanh_and_mul", (gate,), ()),
    ):
        mine, theirs = [t.clone() for t in operands], [t.clone() for t in operands]
        yield name, pair(getattr(ops, name), *mine, args=args), pair(getattr(ref, name), *theirs, args=args)
    a, b = (q.clone(), k.clone()), (q.clone(), k.clone())
    yield (
        "rotary_embedding",
        lambda: ops.rotary_embedding(pos, *a, cache, dim, False) or a,
        lambda: ref.rotary_embedding(pos, *b, cache, dim, False) or b,
    )
    c, d = (q.clone(), k.clone()), (q.clone(), k.clone())
    yield (
        "qk_norm_rope",
        lambda: ops.qk_norm_rope(pos, *c, ones, ones, 1e-6, 0.0, cache, dim, False) or c,
        lambda: ref.qk_norm_rope(pos, *d, ones, ones, 1e-6, 0.0, cache, dim, False) or d,
    )


def tensors(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def main() -> int:
    repo, lock_path = sys.argv[1:]
    revision = pinned_revision(lock_path, repo)
    # The registry's torch is a CUDA build; without backend="cpu" the loader asks
    # for a CUDA variant even where there is no GPU.
    ops = get_kernel(repo, revision=revision, backend="cpu", trust_remote_code=[repo])
    print(f"{repo} @ {revision} loaded from {ops.__file__.rsplit('/', 2)[1]}")
    failed = False
    torch.set_num_threads(1)
    with torch.inference_mode():
        for name, mine, eager in cases(ops):
            got, want = tensors(mine()), tensors(eager())
            error = max(((g - w).abs().max() / w.abs().max().clamp(min=1)).item() for g, w in zip(got, want))
            ours, theirs = microseconds(mine), microseconds(eager)
            ok = error <= TOLERANCE
            failed |= not ok
            print(
                f"{name:<20} error {error:8.1e} {'ok' if ok else 'TOO LARGE'}   "
                f"{ours:7.2f} us/call, eager {theirs:7.2f} us, {theirs / ours:5.1f}x"
            )
    return failed


if __name__ == "__main__":
    sys.exit(main())
