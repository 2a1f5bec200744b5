"""Draws the results as PNG and SVG: plots.py FOLDER RESULTS.json... [--crossover FILE]

Needs matplotlib (bench/requirements.txt).
"""

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import analysis as a  # noqa: E402

COLORS = {"eager": "#7f7f7f", "compile": "#d62728", "at::vec": "#9467bd", "vllm": "#1f77b4", "F.rms_norm": "#bcbd22"}


def save(figure, folder, name):
    for kind in ("png", "svg"):
        figure.savefig(folder / f"{name}.{kind}", dpi=70, bbox_inches="tight")
    plt.close(figure)


def peers(found, folder):
    """Times over ours, per operator and token count; a point is a configuration."""
    for threads in sorted({k[0] for k in found}):
        ops = list(dict.fromkeys(k[1] for k in found))
        figure, axes = plt.subplots(2, 3, figsize=(13, 7), squeeze=False)
        for axis, op in zip(axes.flat, ops):
            tokens = sorted({k[3] for k in found if k[1] == op})
            for j, (peer, color) in enumerate(COLORS.items()):
                points = [
                    (tokens.index(k[3]), a.ratio(e, peer))
                    for k, e in found.items()
                    if k[0] == threads and k[1] == op and peer in e["ns"]
                ]
                for x, (_, paired, low, high) in points:
                    x += (j - 2) * 0.14
                    axis.plot([x, x], [low, high], color=color, linewidth=1)
                    axis.plot(x, paired, "o", color=color, markersize=4)
                if points:
                    axis.plot([], [], "o", color=color, label=peer)
            axis.axhline(1, color="black", linewidth=1)
            axis.set_yscale("log")
            axis.set_xticks(range(len(tokens)), [str(t) for t in tokens])
            axis.set_title(op)
            axis.set_xlabel("tokens")
        axes[0][0].set_ylabel("time over ours (above 1: ours is faster)")
        axes[1][0].set_ylabel("time over ours (above 1: ours is faster)")
        axes[0][0].legend(fontsize=8)
        figure.suptitle(f"thox-edge-ops on a CPU, {threads} thread(s), 95% intervals")
        figure.tight_layout()
        save(figure, folder, f"cpu-peers-{threads}t")


def crossover(found, folder):
    """AVX-512 and eager against AVX2 over the prefill length."""
    ops = list(dict.fromkeys(k[1] for k in found))
    figure, axes = plt.subplots(1, len(ops), figsize=(4 * len(ops), 3.8), squeeze=False)
    for axis, op in zip(axes[0], ops):
        for dtype, style in (("float32", "-"), ("bfloat16", "--")):
            for arm, color in (("avx512", "#2ca02c"), ("ours", "#ff7f0e"), ("eager", "#7f7f7f")):
                points = sorted(
                    (k[3], 1 / a.ratio(e, arm, "avx2")[1])
                    for k, e in found.items()
                    if k[1] == op and k[2] == dtype and arm in e["ns"]
                )
                label = {"ours": "fastest unit"}.get(arm, arm)
                axis.plot(*zip(*points), style, color=color, marker=".", label=f"{label} {dtype}")
        axis.axhline(1, color="black", linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_title(op)
        axis.set_xlabel("tokens")
    axes[0][0].set_ylabel("speed over the AVX2 unit")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    save(figure, folder, "cpu-crossover")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("results", nargs="*")
    parser.add_argument("--crossover", nargs="*", default=[])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.results:
        peers(a.load(*options.results), options.folder)
    if options.crossover:
        crossover(a.load(*options.crossover), options.folder)


if __name__ == "__main__":
    main()
