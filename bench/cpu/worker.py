"""One process of the benchmark: holds arms and times blocks of calls on request.

Reads one JSON request a line from stdin, answers one JSON line on stdout:
  {"setup": CONFIG}              -> {"arms": {name: {"level", "error", "note", "calls"}}}
  {"block": NAME, "calls": N}    -> {"ns": nanoseconds per call}
  {"about": true}                -> {"torch", "threads", "isa", ...}

Only one worker of a run works at a time, so arms of different processes (another unit
forced, another torch) are timed under the same conditions as those of one.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

import arms
import configs

HERE = pathlib.Path(__file__).parent
WARM_UP, CALLS, BLOCK_SECONDS = 20, 50, 0.005


def build_probe():
    """Compiles probe.cpp for this torch and this CPU; the result is kept."""
    cache = HERE.parents[1] / ".cache" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    wide = all(f in flags for f in ("avx512f", "avx512bw", "avx512vl", "avx512dq"))
    isa = ["-mavx2", "-mfma", "-mf16c"]
    isa += ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"] if wide else []
    capability = "AVX512" if wide else "AVX2"
    out = cache / f"probe-{torch.__version__}-{capability}.so"
    source = HERE / "probe.cpp"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        lib = pathlib.Path(torch.__file__).parent
        temporary = out.with_suffix(f".{os.getpid()}")
        subprocess.run(
            ["g++", "-std=c++20", "-O3", "-fPIC", "-shared", "-fopenmp", "-w", *isa]
            + [f"-DCPU_CAPABILITY={capability}", f"-DCPU_CAPABILITY_{capability}"]
            + [f"-I{lib}/include", f"-I{lib}/include/torch/csrc/api/include", str(source), "-o", str(temporary)]
            + [f"-L{lib}/lib", "-ltorch_cpu", "-lc10"],
            check=True,
            stdout=sys.stderr,
        )
        temporary.rename(out)
    torch.ops.load_library(str(out))
    return torch.ops.thox_bench_probe


class Worker:
    def __init__(self, options):
        self.ops = self.probe = self.vllm = None
        if options.vllm:
            ctypes.CDLL(options.vllm)
            self.vllm = torch.ops._C
        else:
            import conftest

            self.ops = conftest.load_kernel("cpu")
            if not options.only_ours and not options.few:
                self.probe = build_probe()
        self.few = options.few
        self.only_ours, self.name, self.compile = options.only_ours, options.name, options.compile
        self.arms = {}

    def about(self):
        return {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "eager": torch.backends.cpu.get_cpu_capability(),
            "isa": self.ops.cpu_isa() if self.ops else None,
        }

    def make(self, config):
        if self.vllm:
            return [arms.vllm(config, self.vllm, "public"), arms.vllm(config, self.vllm, "raw")]
        if self.only_ours:
            return [arms.ours(config, self.ops, self.name)]
        made = [arms.ours(config, self.ops), arms.eager(config)]
        if self.few:
            return made
        made += [
            arms.ours(config, self.ops, "ours_again"),  # the A/A arm
            arms.ours_raw(config, self.ops),
            arms.functional(config),
            arms.probe(config, self.probe),
            arms.floor(config, self.probe),
        ]
        if self.compile and config["model"] in configs.COMPILED:
            made.append(arms.compiled(config))
        return [a for a in made if a]

    def setup(self, config):
        self.arms = {a.name: a for a in self.make(config)}
        told = {}
        for a in self.arms.values():
            error = None if a.level == "floor" else a.error(config)
            for _ in range(WARM_UP):
                a.call()
            start = time.perf_counter()
            for _ in range(5):
                a.call()
            each = (time.perf_counter() - start) / 5
            calls = max(1, min(CALLS, int(BLOCK_SECONDS / each)))
            told[a.name] = {"level": a.level, "error": error, "note": a.note, "calls": calls}
        return {"arms": told}

    def block(self, name, calls):
        a = self.arms[name]
        a.restore()
        call = a.call
        call()  # the buffers back into the caches
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return {"ns": (time.perf_counter_ns() - start) / calls}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--name", default="ours", help="the name of this worker's own arm")
    parser.add_argument("--only-ours", action="store_true")
    parser.add_argument("--few", action="store_true", help="only ours and eager")
    parser.add_argument("--compile", action="store_true", help="add torch.compile")
    parser.add_argument("--vllm", help="the library with vLLM's operators, instead of ours")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints goes to stderr
    with torch.inference_mode():
        worker = Worker(options)
        for line in sys.stdin:
            request = json.loads(line)
            if "setup" in request:
                answer = worker.setup(request["setup"])
            elif "block" in request:
                answer = worker.block(request["block"], request["calls"])
            else:
                answer = worker.about()
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
