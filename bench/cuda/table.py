"""Prints the tables of the GPU results, losses first: table.py RESULTS.json..."""

import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cpu"))
import analysis as a  # noqa: E402

PEERS = ("eager", "compile", "F.rms_norm", "liger", "vllm", "sglang")


def load(*paths):
    """{(level, op, tokens, model): an entry as in analysis.load}."""
    found = {}
    for path in paths:
        for run in json.loads(pathlib.Path(path).read_text())["runs"]:
            for c in run["configs"]:
                k = c["config"]
                key = k["level"], k["op"], k["tokens"], k["model"]
                entry = found.setdefault(key, {"config": k, "arms": c["arms"], "ns": {}})
                for arm, ns in c["ns"].items():
                    entry["ns"].setdefault(arm, []).append(np.array(ns))
    return found


def verdict(low, high, noise):
    return "loss" if high < 1 - noise else "win" if low > 1 + noise else "tie"


def print_level(level, entries):
    rows = []
    for (_, op, tokens, model), e in entries.items():
        noise = a.band(e)
        present = [p for p in PEERS if p in e["ns"]]
        best = min(present, key=lambda p: a.median(e, p)) if present else None
        cells = {p: a.median(e, p) / a.median(e, "ours") for p in present}
        floor = "copy" if level == "bandwidth" else "native"
        paired, result = 0.0, ""
        if best:
            _, paired, low, high = a.ratio(e, best)
            result = f"{verdict(low, high, noise)} ({low:.2f}-{high:.2f} of {best})"
        rows.append((["loss", "tie", "win", ""].index(result.split(" ")[0]), paired, op, tokens, model, e, cells, floor, noise, result))
    rows.sort(key=lambda r: r[:2])
    shown = [p for p in PEERS if any(p in r[6] for r in rows)]
    if level == "raw":  # our own operator without the short entry, for comparison
        shown.insert(0, "registered")
        for r in rows:
            r[6]["registered"] = a.median(r[5], "registered") / a.median(r[5], "ours")
    last = "share of the copy's bandwidth" if level == "bandwidth" else "of a native in-place op"
    print(f"\n### {level}\n\nTimes of the peers over ours.\n")
    print("| op | tokens | model | ours us | " + " | ".join(shown) + f" | {last} | A/A | against the best peer |")
    print("| --- " * (len(shown) + 7) + "|")
    for _, _, op, tokens, model, e, cells, floor, noise, result in rows:
        ours = a.median(e, "ours")
        against = a.median(e, floor) / ours if level == "bandwidth" else ours / a.median(e, floor)
        text = " | ".join(f"{cells[p]:.2f}" if p in cells else "" for p in shown)
        share = f"{against:.1%} ({e['config']['bytes'] / ours / 1e3:.2f} TB/s)" if level == "bandwidth" else f"{against:.2f}"
        print(f"| {op} | {tokens} | {model} | {ours / 1e3:.2f} | {text} | {share} | ±{noise:.2f} | {result} |")


def main():
    found = load(*sys.argv[1:])
    for level in ("public", "raw", "graph", "bandwidth"):
        entries = {k: e for k, e in found.items() if k[0] == level}
        if entries:
            print_level(level, entries)
    print("\n### Errors against float64, largest over the configurations\n")
    worst = {}
    for (level, op, *_), e in found.items():
        for arm, told in e["arms"].items():
            if told["error"] is not None:
                worst[op, arm] = max(worst.get((op, arm), 0), told["error"])
    print("| op | arm | error |\n| --- | --- | --- |")
    for (op, arm), error in sorted(worst.items()):
        if arm != "ours_again":
            print(f"| {op} | {arm} | {error:.1e} |")
    for (level, op, tokens, model), e in found.items():
        for arm, told in e["arms"].items():
            if told["note"].startswith("left out"):
                print(f"\n{level} {op} {tokens} {model}: {arm} {told['note']}")


if __name__ == "__main__":
    main()
