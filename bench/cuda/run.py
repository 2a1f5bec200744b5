"""Runs the GPU benchmark and writes its raw samples.

    python bench/cuda/run.py --out results.json [--levels public raw graph bandwidth] [--processes 3]
                             [--vllm LIBRARY] [--liger] [--sglang FOLDER]

public, raw: per trial every arm runs one block of 50 calls, then synchronizes; the wall
time counts. graph: one replay of 50 captured calls, timed by events. bandwidth: the same
over rings of buffers larger than the second level cache, with a copy of as many bytes
among the arms. The order is shuffled per trial; the whole is repeated in fresh processes.
Arms are checked against float64 first. The clocks are left alone. See README.md beside this file.
"""

import argparse
import datetime
import json
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cpu"))
sys.path.insert(0, str(HERE.parents[1] / "tests" / "python"))
import configs  # noqa: E402

WARM_UP, CALLS, RING_BYTES = 20, 50, 400e6


def todo(options):
    small = [
        {"level": level, "op": op, "dtype": "bfloat16", "tokens": n, "model": model}
        for op in options.ops or configs.OPS
        for n in options.tokens
        for model in configs.models_of(op)
        if not options.models or model in options.models
        for level in options.levels
        if level != "bandwidth"
    ]
    large = [
        {"level": "bandwidth", "op": op, "dtype": "bfloat16", "tokens": n, "model": model}
        for op in options.ops or configs.OPS
        for n in (8192, 16384)
        for model in ("8B", "4B", "Qwen3-0.6B")
        if "bandwidth" in options.levels
    ]
    return small + large


def contenders_of(config, peers):
    """The arms of a level, each a function of no arguments that builds one."""
    import contenders as c

    level, ops, vllm = config["level"], peers["ours"], peers["vllm"]
    ours = c.ours_public if level == "public" else c.ours_raw
    made = {"ours": lambda: ours(config, ops), "ours_again": lambda: ours(config, ops, "ours_again")}
    if level == "raw":
        made["registered"] = lambda: ours(config, ops, "registered", registered=True)
    if level == "public":
        made["eager"] = lambda: c.eager(config)
    if level in ("public", "graph") or level == "bandwidth" and config["tokens"] == 16384 and config["model"] == "8B":
        made["compile"] = lambda: c.compiled(config)
    if level != "raw":
        made["F.rms_norm"] = lambda: c.functional(config)
    if peers["liger"] and level in ("public", "graph"):
        made["liger"] = lambda: c.liger(config)
    if peers["sglang"] and level != "public":
        made["sglang"] = lambda: c.sglang(config, peers["sglang"])
    if vllm and level != "public":
        made["vllm"] = lambda: c.vllm(config, vllm)
    made["copy" if level == "bandwidth" else "native"] = lambda: (c.copy if level == "bandwidth" else c.native)(config)
    return made


def capture(calls):
    """A graph of the calls; results stay alive, so that each call has memory of its own."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    return graph, kept


def measure(config, peers, options, rng):
    import contenders
    import torch

    level, told, samples, blocks = config["level"], {}, {}, {}
    ring = level == "bandwidth"
    copies = max(3, int(RING_BYTES / contenders.minimum_bytes(config)) + 1) if ring else 1
    for name, make in contenders_of(config, peers).items():
        try:
            made = [a for a in (make() for _ in range(copies)) if a]
            if not made:
                continue
            arm = made[0]
            # float64 copies of the largest sizes say nothing new.
            error = None if name in ("native", "copy") or ring else arm.error(config)
            arm.restore()
            for a in made:
                a.call()
            if level in ("public", "raw"):
                for _ in range(WARM_UP):
                    arm.call()
                per_block = CALLS
                blocks[name] = wall(arm, CALLS)
            else:
                order = [a.call for a in made]
                if not ring:
                    order *= CALLS
                per_block = len(order)
                graph, kept = capture(order)
                blocks[name] = replay(graph, kept, made, per_block)
                for _ in range(WARM_UP if not ring else 3):
                    graph.replay()
            torch.cuda.synchronize()
            told[name] = {"error": error, "note": arm.note, "calls": per_block}
            samples[name] = []
        except Exception as e:  # a peer that cannot run this configuration is left out, and said so
            if name.startswith("ours"):
                raise
            told[name] = {"error": None, "note": f"left out: {type(e).__name__}: {str(e)[:200]}", "calls": 0}
    for _ in range(options.trials):
        order = list(samples)
        rng.shuffle(order)
        for name in order:
            samples[name].append(round(blocks[name](), 1))
    result = {"config": {**config, "bytes": contenders.minimum_bytes(config)}, "arms": told, "ns": samples}
    blocks.clear()
    torch.cuda.empty_cache()
    return result


def wall(arm, calls):
    import torch

    def block():
        arm.restore()
        call = arm.call
        call()
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - start) / calls

    return block


def replay(graph, kept, made, calls):
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def block(keep=(kept, made)):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e6 / calls

    return block


def clocks():
    done = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader"], capture_output=True, text=True)
    return done.stdout.strip()


def worker(options):
    """All configurations once, in this process; prints the run as JSON."""
    import conftest
    import torch

    if options.liger:
        import liger_kernel  # noqa: F401
    vllm = None
    if options.vllm:
        torch.ops.load_library(options.vllm)
        vllm = next(getattr(torch.ops, n) for n in ("_C", "_C_stable_libtorch") if hasattr(getattr(torch.ops, n), "rms_norm"))
    peers = {"ours": conftest.load_kernel("cuda"), "vllm": vllm, "liger": options.liger, "sglang": None}
    if options.sglang:
        import tvm_ffi

        peers["sglang"] = tvm_ffi.load_module(options.sglang)
    rng = random.Random(options.seed + options.worker)
    order = todo(options)
    rng.shuffle(order)
    about = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "clocks before": clocks()}
    measured = []
    with torch.inference_mode():
        for i, config in enumerate(order):
            measured.append(measure(config, peers, options, rng))
            print(f"run {options.worker + 1}/{options.processes}: {i + 1}/{len(order)}", end="\r", file=sys.stderr)
    about["clocks after"] = clocks()
    write(options.out, {"about": about, "configs": measured})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--levels", nargs="*", default=["public", "raw", "graph", "bandwidth"])
    parser.add_argument("--processes", type=int, default=3, help="times that everything is started afresh")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--tokens", nargs="*", type=int, default=[1, 128])
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--ops", nargs="*", choices=configs.OPS)
    parser.add_argument("--vllm", help="vLLM's library of operators")
    parser.add_argument("--liger", action="store_true", help="add Liger, which must be importable")
    parser.add_argument("--sglang", help="sglang/kernels/jit of an unpacked wheel, or the library that sglang.py made of it")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return worker(options)
    if options.sglang and pathlib.Path(options.sglang).is_dir():  # once for all processes
        import sglang

        library = sglang.build(options.sglang)
        sys.argv[sys.argv.index("--sglang") + 1] = str(library)
    result = {
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "options": {k: v for k, v in vars(options).items() if k not in ("out", "vllm", "sglang", "worker")},
        "runs": [],
    }
    for process in range(options.processes):
        part = options.out.with_suffix(f".{process}")
        arguments = [a for a in sys.argv[1:]]
        arguments[arguments.index("--out") + 1] = str(part)
        subprocess.run([sys.executable, str(HERE / "run.py"), *arguments, "--worker", str(process)], check=True)
        result["runs"].append(json.loads(part.read_text()))
        part.unlink()
        write(options.out, result)


def write(path, result):
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(result) + "\n")
    temporary.rename(path)


if __name__ == "__main__":
    main()
