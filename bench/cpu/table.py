"""Prints the table of the results, losses first: table.py RESULTS.json..."""

import sys

import analysis as a

ARMS = ["eager", "compile", "F.rms_norm", "at::vec", "vllm", "floor", "baseline", "avx2", "avx512"]
VERDICTS = ["loss", "tie", "win"]


def rows(found):
    """(paired ratio, key, entry, best peer, low, high, noise, verdict) of every
    configuration, losses first."""
    ranked = []
    for key, e in found.items():
        peer = a.best_peer(e)
        if peer is None:
            continue
        _, paired, low, high = a.ratio(e, peer)
        noise = a.band(e)
        verdict = "loss" if high < 1 - noise else "win" if low > 1 + noise else "tie"
        ranked.append((paired, key, e, peer, low, high, noise, verdict))
    return sorted(ranked, key=lambda r: (VERDICTS.index(r[-1]), r[0]))


def configurations(ranked):
    """The lines of the table of configurations."""
    yield (
        "| threads | op | dtype | tokens | model | ours us (min) | best peer | peer us | ratio | 95% | A/A | slow "
        "| result | error ours / peer |"
    )
    yield "| --- " * 14 + "|"
    for paired, (threads, op, dtype, tokens, model), e, peer, low, high, noise, verdict in ranked:
        fastest = min(x.min() for x in e["ns"]["ours"])
        yield (
            f"| {threads} | {op} | {dtype} | {tokens} | {model} | {a.median(e, 'ours') / 1e3:.2f} ({fastest / 1e3:.2f}) "
            f"| {peer} | {a.median(e, peer) / 1e3:.2f} | {paired:.2f} | {low:.2f}-{high:.2f} | ±{noise:.2f} "
            f"| {a.slow_share(e):.0%} | {verdict} | {e['arms']['ours']['error']:.1e} / {e['arms'][peer]['error']:.1e} |"
        )


def groups(found):
    """{(threads, op, tokens): entries}"""
    found_groups = {}
    for threads in sorted({k[0] for k in found}):
        for op in dict.fromkeys(k[1] for k in found):
            for tokens in sorted({k[3] for k in found if k[1] == op}):
                entries = [e for k, e in found.items() if (k[0], k[1], k[3]) == (threads, op, tokens)]
                if entries:
                    found_groups[threads, op, tokens] = entries
    return found_groups


def means(found):
    """The lines of the table of geometric means."""
    yield "| threads | op | tokens | " + " | ".join(ARMS) + " | raw: vllm_raw over ours_raw |"
    yield "| --- " * (len(ARMS) + 4) + "|"
    for (threads, op, tokens), entries in groups(found).items():
        cells = [a.geometric_mean(entries, arm) for arm in ARMS]
        cells.append(a.geometric_mean(entries, "vllm_raw", "ours_raw"))
        text = [f"{c[0]:.2f} ({c[1]:.2f}-{c[2]:.2f})" if c else "" for c in cells]
        yield f"| {threads} | {op} | {tokens} | " + " | ".join(text) + " |"


def count(ranked):
    n = {v: sum(r[-1] == v for r in ranked) for v in VERDICTS}
    return f"{n['win']} wins, {n['tie']} ties, {n['loss']} losses against the best peer of each row."


def main():
    found = a.load(*sys.argv[1:])
    ranked = rows(found)
    print(*configurations(ranked), "", count(ranked), "", sep="\n")
    print("Geometric means of the time over ours, with 95% intervals:", "", *means(found), sep="\n")


if __name__ == "__main__":
    main()
