"""Prints the table of the results, losses first: table.py RESULTS.json..."""

import sys

import analysis as a


def rows(found):
    for key, e in found.items():
        peer = a.best_peer(e)
        if peer is None:
            continue
        _, paired, low, high = a.ratio(e, peer)
        noise = a.band(e)
        verdict = "loss" if high < 1 - noise else "win" if low > 1 + noise else "tie"
        yield paired, key, e, peer, low, high, noise, verdict


def main():
    found = a.load(*sys.argv[1:])
    print("| threads | op | dtype | tokens | model | ours us (min) | best peer | peer us | ratio | 95% | A/A | slow | result | error ours / peer |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ranked = sorted(rows(found), key=lambda r: (["loss", "tie", "win"].index(r[-1]), r[0]))
    for paired, (threads, op, dtype, tokens, model), e, peer, low, high, noise, verdict in ranked:
        fastest = min(x.min() for x in e["ns"]["ours"])
        print(
            f"| {threads} | {op} | {dtype} | {tokens} | {model} | {a.median(e, 'ours') / 1e3:.2f} ({fastest / 1e3:.2f}) "
            f"| {peer} | {a.median(e, peer) / 1e3:.2f} | {paired:.2f} | {low:.2f}-{high:.2f} | ±{noise:.2f} "
            f"| {a.slow_share(e):.0%} | {verdict} | {e['arms']['ours']['error']:.1e} / {e['arms'][peer]['error']:.1e} |"
        )
    count = {v: sum(r[-1] == v for r in ranked) for v in ("loss", "tie", "win")}
    print(f"\n{count['win']} wins, {count['tie']} ties, {count['loss']} losses against the best peer of each row.\n")
    print("Geometric means of the time over ours, with 95% intervals:\n")
    arms = [x for x in ("eager", "compile", "F.rms_norm", "at::vec", "vllm", "floor", "baseline", "avx2", "avx512")]
    print("| threads | op | tokens | " + " | ".join(arms) + " | raw: vllm_raw over ours_raw |")
    print("| --- " * (len(arms) + 4) + "|")
    for threads in sorted({k[0] for k in found}):
        for op in dict.fromkeys(k[1] for k in found):
            for tokens in sorted({k[3] for k in found if k[1] == op}):
                entries = [e for k, e in found.items() if k[0] == threads and k[1] == op and k[3] == tokens]
                cells = [a.geometric_mean(entries, arm) for arm in arms]
                cells.append(a.geometric_mean(entries, "vllm_raw", "ours_raw"))
                text = [f"{c[0]:.2f} ({c[1]:.2f}-{c[2]:.2f})" if c else "" for c in cells]
                print(f"| {threads} | {op} | {tokens} | " + " | ".join(text) + " |")


if __name__ == "__main__":
    main()
