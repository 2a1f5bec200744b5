"""What torch's stable ABI costs per call: both forms of thox-edge-ops and eager torch, in
one process, in turn.

Usage: run.py [--blocks N] [--calls N] [--json FILE]
It takes the variants of torch's release that `thoxbuild build` left in build/:
    thoxbuild build --variant 'torch*-cpu-x86_64-linux'

Each operator runs on one token of Qwen3-0.6B, float32, one thread, in inference mode.
A block is CALLS calls of one arm; the arms of a round come in a new random order. A figure
is the median over the rounds, a ratio the median of the rounds' ratios with its 95%
interval from resampling them.
"""

import argparse
import json
import pathlib
import platform
import random
import sys
import time

import numpy as np
import torch
from kernels import get_local_kernel

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "demo"))
from load import cases  # noqa: E402

# Each arm: what it is.
ARMS = {
    "torch form": "the build for this torch, as its Python functions call it",
    "torch form, dispatched": "the same without its short way past the dispatcher",
    "stable form": "the build for the stable ABI, as its Python functions call it",
    "stable form, dispatched": "the same without stable.py, so without its gradient check",
    "stable form, again": "an A/A arm: what it differs by is noise",
    "eager": "the same function in torch's own operators",
}


def variant(pattern):
    found = sorted((ROOT / "build").glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"run.py: expected one build/{pattern}, found {len(found)}; run `thoxbuild build` first")
    return get_local_kernel(found[0], backend="cpu")


def direct(ops, name):
    """(the object that holds an operator's way from Python, that way, the registered operator)"""
    native = getattr(ops.functions, "_" + name)
    return native, native.direct, native.traced._op


def block(call, calls):
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / calls


def measure(torch_form, stable_form, blocks, calls):
    """{operator: {arm: ns per call in each round}}"""
    rounds = random.Random(1)
    result = {}
    for (name, mine, eager), (_, theirs, _) in zip(cases(torch_form), cases(stable_form)):
        held, short, dispatched = direct(torch_form, name)
        stable_held, guarded, bare = direct(stable_form, name)
        arms = {
            "torch form": (held, short, mine),
            "torch form, dispatched": (held, dispatched, mine),
            "stable form": (stable_held, guarded, theirs),
            "stable form, dispatched": (stable_held, bare, theirs),
            "stable form, again": (stable_held, guarded, theirs),
            "eager": (held, short, eager),
        }
        ns = {arm: [] for arm in ARMS}
        for i in range(blocks + 3):
            for arm in rounds.sample(list(arms), len(arms)):
                holder, way, call = arms[arm]
                holder.direct = way
                took = block(call, calls)
                if i >= 3:  # the first rounds warm up
                    ns[arm].append(took)
        held.direct, stable_held.direct = short, guarded
        result[name] = ns
    return result


def ratio(ns, arm, base):
    """(median of the rounds' ratios arm / base, low, high)"""
    rounds = np.array(ns[arm]) / np.array(ns[base])
    picks = np.random.default_rng(1).integers(0, len(rounds), (2000, len(rounds)))
    low, high = np.percentile(np.median(rounds[picks], axis=1), [2.5, 97.5])
    return float(np.median(rounds)), float(low), float(high)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--blocks", type=int, default=200)
    p.add_argument("--calls", type=int, default=100)
    p.add_argument("--json", type=pathlib.Path, help="also write the samples here")
    o = p.parse_args()
    torch.set_num_threads(1)
    release = "".join(torch.__version__.split(".")[:2])
    with torch.inference_mode():
        here = f"cpu-{platform.machine()}-linux"
        torch_form, stable_form = variant(f"torch{release}-cxx11-{here}"), variant(f"torch-stable-abi*-{here}")
        result = measure(torch_form, stable_form, o.blocks, o.calls)
    print(f"torch {torch.__version__}, {o.blocks} rounds of {o.calls} calls; median us per call, fastest in brackets")
    print("ratios to the torch form as called: median [95% interval]")
    for arm, what in ARMS.items():
        print(f"  {arm}: {what}")
    for name, ns in result.items():
        print(f"\n{name}")
        for arm in ARMS:
            r, low, high = ratio(ns, arm, "torch form")
            time_of = f"{np.median(ns[arm]) / 1e3:7.2f} us ({min(ns[arm]) / 1e3:6.2f})"
            print(f"  {arm:<24} {time_of}   {r:6.2f} [{low:.2f}, {high:.2f}]")
        r, low, high = ratio(ns, "stable form, dispatched", "torch form, dispatched")
        print(f"  the ABI alone, dispatched: {r:.2f} [{low:.2f}, {high:.2f}]")
        r, low, high = ratio(ns, "stable form, again", "stable form")
        print(f"  noise, the stable form against itself: {r:.2f} [{low:.2f}, {high:.2f}]")
    if o.json:
        o.json.write_text(json.dumps({"torch": torch.__version__, "ns": result}))


if __name__ == "__main__":
    main()
