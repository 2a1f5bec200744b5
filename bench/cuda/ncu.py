"""What Nsight Compute reads of every kernel: ncu.py [--ncu PROGRAM]

Runs itself under ncu, one call of each operator at 1, 128 and 16384 tokens (bf16, the 8B
shapes of contenders.py), after warm-up calls that ncu leaves out. The clocks are left
alone and the caches are not flushed between kernels, but the buffers at 16384 tokens are
larger than the second level cache. Prints a table: time, bytes that crossed the device
memory's pins, their rate, registers, local memory (spills), and occupancy.
"""

import argparse
import csv
import io
import pathlib
import re
import subprocess
import sys

METRICS = {
    "gpu__time_duration.sum": "us",
    "dram__bytes_read.sum": "read",
    "dram__bytes_write.sum": "written",
    "launch__registers_per_thread": "registers",
    "smsp__inst_executed_op_local_ld.sum": "local loads",
    "smsp__inst_executed_op_local_st.sum": "local stores",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads",
}
UNITS = {"second": 1e6, "msecond": 1e3, "usecond": 1, "nsecond": 1e-3, "ms": 1e3, "us": 1, "ns": 1e-3, "s": 1e6}
BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "KB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1}
OPS = ("rms_norm", "fused_add_rms_norm", "silu_and_mul", "gelu_tanh_and_mul", "rotary_embedding", "qk_norm_rope")
TOKENS = (1, 128, 16384)


def calls():
    """The child: runs the operators, marked for ncu by a profiler range."""
    here = pathlib.Path(__file__).parent
    sys.path.insert(0, str(here.parents[1] / "tests" / "python"))
    sys.path.insert(0, str(here))
    import conftest
    import contenders
    import torch

    ops = conftest.load_kernel("cuda")
    with torch.inference_mode():
        made = [
            contenders.ours_raw({"level": "bandwidth", "op": op, "dtype": "bfloat16", "tokens": n, "model": "8B"}, ops)
            for op in OPS
            for n in TOKENS
        ]
        for arm in made:
            arm.call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for arm in made:
            arm.call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.calls:
        return calls()
    command = [options.ncu, "--csv", "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"]
    command += ["--kernel-name", "regex:norm|gate|rotary|prologue", "--metrics", ",".join(METRICS), sys.executable, __file__, "--calls"]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout[done.stdout.find('"ID"') :]
    if done.returncode or not text.startswith('"ID"'):
        sys.exit(f"ncu.py: {' '.join(command)} exited {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    kernels = {}
    for row in csv.DictReader(io.StringIO(text)):
        k = kernels.setdefault(row["ID"], {"kernel": re.sub(r"^.*::|\(.*$", "", row["Kernel Name"].split("<")[0])})
        name, unit, value = METRICS[row["Metric Name"]], row["Metric Unit"], float(row["Metric Value"].replace(",", ""))
        k[name] = value * (UNITS.get(unit, 1) if name == "us" else BYTES.get(unit, 1) if name in ("read", "written") else 1)
    print("| op | tokens | kernel | blocks x threads | us | read MB | written MB | TB/s | registers | local loads + stores | occupancy |")
    print("| --- " * 11 + "|")
    asked = [(op, n) for op in OPS for n in TOKENS]
    if len(kernels) != len(asked):
        sys.exit(f"ncu.py: {len(asked)} calls launched {len(kernels)} kernels, expected one each")
    for (op, n), k in zip(asked, kernels.values()):
        rate = (k["read"] + k["written"]) / k["us"] / 1e6
        print(
            f"| {op} | {n} | {k['kernel']} | {k['blocks']:.0f} x {k['threads']:.0f} | {k['us']:.2f} | {k['read'] / 1e6:.2f} "
            f"| {k['written'] / 1e6:.2f} | {rate:.2f} | {k['registers']:.0f} | {k['local loads'] + k['local stores']:.0f} | {k['occupancy']:.0f}% |"
        )


if __name__ == "__main__":
    main()
