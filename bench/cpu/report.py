"""Puts results into a document, between its lines `<!-- results -->` and `<!-- end -->`:
report.py DOCUMENT RESULTS.json...

Losses first, then how the targets were met, then geometric means. The table of all
configurations is too long for it: table.py prints that.
"""

import json
import pathlib
import sys

import analysis as a
import table

# What the project set out to reach: geometric means over eager at 1 token, times of an
# empty operator at 1 token, and geometric means at 32 and 128 tokens.
OVER_EAGER = {
    "rms_norm": 6,
    "fused_add_rms_norm": 7,
    "silu_and_mul": 2.5,
    "gelu_tanh_and_mul": 4,
    "rotary_embedding": 12,
    "qk_norm_rope": 20,
}
OVER_FLOOR = {"rms_norm": 1.3, "fused_add_rms_norm": 1.3, "rotary_embedding": 1.3}
PREFILL_OVER_EAGER, PREFILL_OVER_BEST = 3, 1.2


def over_best(entries):
    """The geometric mean of each configuration's best peer over ours."""
    import numpy as np

    logs = [np.log(a.median(e, a.best_peer(e)) / a.median(e, "ours")) for e in entries]
    return float(np.exp(np.mean(logs)))


def targets(found):
    yield "| threads | target | op | tokens | target | measured | |"
    yield "| --- " * 7 + "|"

    def line(threads, what, op, tokens, wanted, got, met):
        return f"| {threads} | {what} | {op} | {tokens} | {wanted} | {got:.2f} | {'met' if met else '**missed**'} |"

    for (threads, op, tokens), entries in table.groups(found).items():
        eager = a.geometric_mean(entries, "eager")[0]
        if tokens == 1:
            yield line(threads, "over eager", op, 1, f"at least {OVER_EAGER[op]}", eager, eager >= OVER_EAGER[op])
            if op in OVER_FLOOR:
                call = 1 / a.geometric_mean(entries, "floor")[0]
                yield line(threads, "of an empty operator", op, 1, f"at most {OVER_FLOOR[op]}", call, call <= OVER_FLOOR[op])
        else:
            best = over_best(entries)
            yield line(threads, "over eager", op, tokens, f"at least {PREFILL_OVER_EAGER}", eager, eager >= PREFILL_OVER_EAGER)
            yield line(threads, "over the best peer", op, tokens, f"at least {PREFILL_OVER_BEST}", best, best >= PREFILL_OVER_BEST)
    for (threads, op, tokens), entries in table.groups(found).items():
        if all("baseline" in e["ns"] for e in entries):
            forced = a.geometric_mean(entries, "eager")[0] / a.geometric_mean(entries, "baseline")[0]
            yield line(threads, "baseline forced, over eager", op, tokens, "at least 1", forced, forced >= 1)
    for unit in ("avx2", "baseline"):
        slower = []
        for (threads, op, dtype, tokens, model), e in found.items():
            if unit in e["ns"]:
                _, paired, low, high = a.ratio(e, "eager", unit)
                if high < 1 - a.band(e):
                    slower.append((paired, f"{op} {dtype} {tokens} {model}"))
        measured = sum(unit in e["ns"] for e in found.values())
        if measured:
            rows = ", ".join(f"{row} {paired:.2f}" for paired, row in sorted(slower))
            wanted, met = ("0 slower", "**missed**" if slower else "met") if unit == "avx2" else ("-", "")
            got = f"{len(slower)} of {measured} slower" + (f": {rows} of eager's speed" if rows else "")
            yield f"| 1 | {unit} forced, row by row | all | all | {wanted} | {got} | {met} |"


def text(paths):
    found = a.load(*paths)
    ranked = table.rows(found)
    not_won = [r for r in ranked if r[-1] != "win"]
    yield table.count(ranked) + " What was not won:"
    yield ""
    yield from table.configurations(not_won)
    yield ""
    yield from targets(found)
    yield ""
    yield "Geometric means of the time over ours, with 95% intervals:"
    yield ""
    yield from table.means(found)
    yield ""
    for path in paths:
        result = json.loads(pathlib.Path(path).read_text())
        about = result["runs"][0]["about"]["main"]
        yield (
            f"{pathlib.Path(path).name}: {result['started']}, {result['host']['cpu']}, {result['host']['cpus']} CPUs, torch "
            f"{about['torch']} ({about['eager']}), unit {about['isa']}, {len(result['runs'])} processes of "
            f"{result['options']['trials']} trials, seed {result['options']['seed']}."
        )


def main():
    document, *paths = sys.argv[1:]
    path = pathlib.Path(document)
    before, _, rest = path.read_text().partition("<!-- results -->\n")
    _, mark, after = rest.partition("<!-- end -->")
    if not mark:
        raise SystemExit(f"report.py: {document}: expected the lines <!-- results --> and <!-- end -->")
    path.write_text(before + "<!-- results -->\n" + "\n".join(text(paths)) + "\n" + mark + after)


if __name__ == "__main__":
    main()
