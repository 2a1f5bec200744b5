"""Ratios with intervals from the raw samples."""

import json

import numpy as np

DRAWS, SEED = 10_000, 1


def load(*paths):
    """{key: {"config", "arms", "ns": {arm: [samples of run 1, of run 2, ...]}}}; key is
    (threads, op, dtype, tokens, model)."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as f:
            result = json.load(f)
        for run in result["runs"]:
            for c in run["configs"]:
                k = c["config"]
                key = result["options"]["threads"], k["op"], k["dtype"], k["tokens"], k["model"]
                entry = found.setdefault(key, {"config": k, "arms": c["arms"], "ns": {}})
                for arm, ns in c["ns"].items():
                    entry["ns"].setdefault(arm, []).append(np.array(ns))
    return found


def median(entry, arm):
    return float(np.median(np.concatenate(entry["ns"][arm])))


def _draws(entry, arm, base, rng, draws=DRAWS):
    """Bootstrap draws of the median of the paired ratio arm / base: processes first, then
    trials within them."""
    a, b = entry["ns"][arm], entry["ns"][base]
    runs = min(len(a), len(b))
    ratios = np.array([a[i] / b[i] for i in range(runs)])
    trials = ratios.shape[1]
    picks = rng.integers(0, runs, (draws, runs, 1))
    return np.median(ratios[picks, rng.integers(0, trials, (draws, runs, trials))].reshape(draws, -1), axis=1)


def ratio(entry, arm, base="ours", draws=2000):
    """(ratio of medians, median paired ratio, low, high) of arm's time over base's."""
    rng = np.random.default_rng(SEED)
    paired = np.median(np.concatenate([a / b for a, b in zip(entry["ns"][arm], entry["ns"][base])]))
    low, high = np.percentile(_draws(entry, arm, base, rng, draws), [2.5, 97.5])
    return median(entry, arm) / median(entry, base), float(paired), float(low), float(high)


def geometric_mean(entries, arm, base="ours", draws=1000):
    """(geometric mean of the ratios of medians, low, high) over configurations, drawn
    jointly."""
    entries = [e for e in entries if arm in e["ns"] and base in e["ns"]]
    if not entries:
        return None
    rng = np.random.default_rng(SEED)
    logs = np.mean([np.log(_draws(e, arm, base, rng, draws)) for e in entries], axis=0)
    point = np.exp(np.mean([np.log(median(e, arm) / median(e, base)) for e in entries]))
    low, high = np.exp(np.percentile(logs, [2.5, 97.5]))
    return float(point), float(low), float(high)


PEERS = ("eager", "compile", "F.rms_norm", "at::vec", "vllm")


WRONG = 0.05  # an error that no rounding explains: the peer computes something else


def best_peer(entry):
    """The peer of the public level with the smallest median, of those with right results."""
    present = [p for p in PEERS if p in entry["ns"] and entry["arms"][p]["error"] < WRONG]
    return min(present, key=lambda p: median(entry, p)) if present else None


def band(entry):
    """How far the A/A arm's interval strays from 1: a ratio inside it says nothing."""
    _, _, low, high = ratio(entry, "ours_again")
    return max(abs(low - 1), abs(high - 1))


def slow_share(entry, arm="ours"):
    """The share of blocks slower than 1.5 times the fastest: a busy neighbour."""
    ns = np.concatenate(entry["ns"][arm])
    return float((ns > 1.5 * ns.min()).mean())
