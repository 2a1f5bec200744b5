"""Runs the CPU benchmark and writes its raw samples.

    python bench/cpu/run.py --out results.json [--threads 1] [--processes 3] [--vllm PYTHON LIBRARY]

Protocol: for each configuration every arm is warmed up with 20 calls; then 30 trials, in
each of which every arm runs one block of 50 calls (fewer where a block would last longer
than 5 ms), in an order shuffled per trial. The whole is repeated in fresh processes. Arms
are checked against float64 before they are timed. See bench/cpu/README.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import time

import configs

HERE = pathlib.Path(__file__).parent
SUITE = HERE.parents[1] / "tests" / "python"


class Process:
    """A worker and its pipes."""

    def __init__(self, arguments, python=sys.executable, isa=""):
        env = {**os.environ, "THOX_EDGE_OPS_CPU_ISA": isa, "PYTHONPATH": str(SUITE)}
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), *arguments], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"run.py: a worker ended with status {self._process.wait()}; its error is above")
        return json.loads(answer)

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def workers(options, first):
    common = ["--threads", str(options.threads)]
    main = ["--few"] if options.crossover else ["--compile"] if options.compile and first else []
    found = {"main": Process(common + main)}
    for isa in options.isa:
        found[isa] = Process(common + ["--only-ours", "--name", isa], isa=isa)
    if options.vllm:
        python, library = options.vllm
        found["vllm"] = Process(common + ["--vllm", library], python=python)
    return found


def measure(config, processes, options, rng):
    """All samples of one configuration in one set of processes."""
    told, where = {}, {}
    for process in processes.values():
        for name, arm in process.ask({"setup": config})["arms"].items():
            told[name], where[name] = arm, process
    samples = {name: [] for name in told}
    last = None
    for _ in range(options.trials):
        order = list(told)
        rng.shuffle(order)
        for name in order:
            if options.threads > 1 and where[name] is not last:
                time.sleep(0.005)  # idle OpenMP threads of the worker before go to sleep
            last = where[name]
            ns = where[name].ask({"block": name, "calls": told[name]["calls"]})["ns"]
            samples[name].append(round(ns))
    return {"config": config, "arms": told, "ns": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3, help="times that everything is started afresh")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--isa", nargs="*", default=["baseline", "avx2", "avx512"], help="units to force as arms")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    parser.add_argument("--vllm", nargs=2, metavar=("PYTHON", "LIBRARY"), help="interpreter with torch 2.11, vLLM's _C library")
    parser.add_argument("--ops", nargs="*", choices=configs.OPS)
    parser.add_argument("--tokens", nargs="*", type=int)
    parser.add_argument("--dtypes", nargs="*", choices=configs.DTYPES)
    parser.add_argument("--crossover", action="store_true", help="measure prefill lengths instead")
    parser.add_argument("--quick", action="store_true", help="one process, 5 trials, one model: a minute, to try it out")
    parser.add_argument("--budget", type=float, default=float("inf"), help="start no process that would end after so many seconds")
    options = parser.parse_args()
    if options.quick:
        options.processes, options.trials = 1, 5
    todo = configs.crossover() if options.crossover else configs.matrix(options.ops, options.tokens, options.dtypes)
    if options.quick:
        todo = [c for c in todo if c["model"] in configs.COMPILED]
    result = {
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "host": {"cpu": cpu_name(), "cpus": os.cpu_count(), "kernel": platform.release()},
        "options": {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in vars(options).items() if k not in ("out", "vllm", "budget")},
        "runs": [],
    }
    began = time.monotonic()
    for process in range(options.processes):
        if process and (time.monotonic() - began) * (process + 1) / process > options.budget:
            print(f"run.py: no time for process {process + 1} of {options.processes}", file=sys.stderr)
            break
        rng = random.Random(options.seed + process)
        order = todo[:]
        rng.shuffle(order)
        started = workers(options, process == 0)
        run = {"about": {n: p.ask({"about": True}) for n, p in started.items()}, "configs": []}
        result["runs"].append(run)
        for i, config in enumerate(order):
            run["configs"].append(measure(config, started, options, rng))
            progress(f"run {process + 1}/{options.processes}: {i + 1}/{len(order)} {' '.join(map(str, config.values()))}")
        progress("")
        for p in started.values():
            p.close()
        write(options.out, result)


def progress(text):
    """One live line, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def write(path, result):
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(result, separators=(",", ":")).replace('{"config"', '\n{"config"') + "\n")
    temporary.rename(path)


if __name__ == "__main__":
    main()
