"""Draws the GPU results as PNG and SVG: plots.py FOLDER RESULTS.json...

Needs matplotlib (bench/cpu/requirements.txt). One figure a level: the times of the peers
over ours with 95% intervals, a point for each configuration; for the level `bandwidth`
the share of a copy's bandwidth of every arm.
"""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import table  # noqa: E402
from table import a  # noqa: E402

COLORS = {
    "eager": "#7f7f7f", "compile": "#d62728", "F.rms_norm": "#bcbd22", "liger": "#9467bd", "vllm": "#1f77b4",
    "sglang": "#ff7f0e", "ours": "#2ca02c",
}


def save(figure, folder, name):
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(folder / f"{name}.{kind}", dpi=120, bbox_inches="tight")
    plt.close(figure)


def level(name, entries, folder):
    share = name == "bandwidth"
    ops = list(dict.fromkeys(k[1] for k in entries))
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), squeeze=False)
    for axis, op in zip(axes.flat, ops):
        mine = {k: e for k, e in entries.items() if k[1] == op}
        tokens = sorted({k[2] for k in mine})
        arms = [x for x in COLORS if any(x in e["ns"] for e in mine.values()) and (share or x != "ours")]
        for j, arm in enumerate(arms):
            for k, e in mine.items():
                if arm not in e["ns"]:
                    continue
                x = tokens.index(k[2]) + (j - len(arms) / 2) * 0.12
                if share:
                    axis.plot(x, a.median(e, "copy") / a.median(e, arm), "o", color=COLORS[arm], markersize=4)
                    continue
                _, paired, low, high = a.ratio(e, arm)
                axis.plot([x, x], [low, high], color=COLORS[arm], linewidth=1)
                axis.plot(x, paired, "o", color=COLORS[arm], markersize=4)
            axis.plot([], [], "o", color=COLORS[arm], label=arm)
        axis.axhline(1, color="black", linewidth=1)
        if not share:
            axis.set_yscale("log")
        axis.set_xticks(range(len(tokens)), [str(t) for t in tokens])
        axis.set_title(op)
        axis.set_xlabel("tokens")
        axis.legend(fontsize=7)
    for row in axes:
        row[0].set_ylabel("share of a copy's bandwidth" if share else "time over ours (above 1: ours is faster)")
    figure.suptitle(f"thox-edge-ops on one NVIDIA H200, bf16, level: {name}")
    save(figure, folder, f"cuda-{name}")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = table.load(*sys.argv[2:])
    for name in dict.fromkeys(k[0] for k in found):
        level(name, {k: e for k, e in found.items() if k[0] == name}, folder)


if __name__ == "__main__":
    main()
