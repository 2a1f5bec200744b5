"""Counts instructions per element of the NEON units, from the disassembly: neon_counts.py

No aarch64 hardware is at hand, so this stands where a timing would. Compiles the units with
aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu) and reads aarch64-linux-gnu-objdump: for
each primitive the innermost loops, what they load and store, and how many elements that is.
A loop that only loads is a row's first pass; the total is the sum over a row's passes.
"""

import pathlib
import re
import subprocess
import tempfile

CPU = pathlib.Path(__file__).parents[2] / "kernels-src" / "thox-edge-ops" / "cpu"
UNITS = {"neon": ("rows_baseline.cpp", []), "neon_bf16": ("rows_neon_bf16.cpp", ["-march=armv8.2-a+bf16"])}
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno"]
TYPES = {"f": ("float32", 4), "NS_4HalfE": ("float16", 2), "NS_8BFloat16E": ("bfloat16", 2)}
# Mangled name -> operator, and its passes over a row: whether one stores, and how many
# elements its main loop takes at a time. Other loops are for what is left of a row.
TYPE = r"I(f|NS_4HalfE|NS_8BFloat16E)"
OPS = {
    "norm_rows" + TYPE + "Lb0EE": ("rms_norm", [(False, 64), (True, 64)]),
    "norm_rows" + TYPE + "Lb1EE": ("fused_add_rms_norm", [(True, 64), (True, 64)]),
    "gate_blocks" + TYPE + "Li0EE": ("silu_and_mul", [(True, 64)]),
    "gate_blocks" + TYPE + "Li1EE": ("gelu_tanh_and_mul", [(True, 64)]),
    "rotary_heads" + TYPE + "fLb0EE": ("rotary_embedding", [(True, 32)]),
    "prologue_heads" + TYPE + "fLb0EE": ("qk_norm_rope", [(False, 64), (True, 32)]),
}
WIDTH = {"q": 16, "d": 8, "s": 4, "h": 2}


def functions(obj):
    """{mangled name: [(address, mnemonic, operands)]}"""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", obj], check=True, capture_output=True, text=True)
    found, current = {}, None
    for line in text.stdout.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            current = found.setdefault(head[1], [])
        elif code := re.match(r"\s+([0-9a-f]+):\t(\S+)\s*(.*)", line):
            current.append((int(code[1], 16), code[2], code[3]))
    return found


def loops(code):
    """Index ranges of the loops that hold no other: each ends in a jump back."""
    at = {address: i for i, (address, _, _) in enumerate(code)}
    spans = []
    for i, (_, mnemonic, operands) in enumerate(code):
        if re.match(r"b\.|b$|cbn?z|tbn?z", mnemonic):
            target = re.search(r"([0-9a-f]+) <", operands)
            start = at.get(int(target[1], 16)) if target else None
            if start is not None and start <= i:
                spans.append((start, i))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return [code[a : b + 1] for a, b in inner]


def moved(loop, kind):
    """Bytes of vector loads ("ld") or stores ("st"), not counting what is spilled."""
    total = 0
    for _, mnemonic, operands in loop:
        if re.match(kind + r"u?[rp]", mnemonic) and "sp" not in operands.split("[")[-1]:
            registers = re.findall(r"\b([qdsh])\d+", operands.split("[")[0])
            total += sum(WIDTH[r] for r in registers)
        elif mnemonic == kind + "1":
            total += 16 * len(re.findall(r"v\d+", operands))
    return total


def passes(code, size, wanted):
    """The instructions of each wanted pass's main loop, or None where one is not found."""
    found = {}
    for loop in loops(code):
        stored, loaded = moved(loop, "st"), moved(loop, "ld")
        found.setdefault((stored > 0, (stored or loaded) // size), []).append(len(loop))
    taken = []
    for pass_ in dict.fromkeys(wanted):
        count = wanted.count(pass_)
        if len(found.get(pass_, [])) < count:
            return None
        taken += [(n, pass_[1]) for n in found[pass_][:count]]
    return taken


def main():
    print("| op | dtype | unit | passes: instructions / elements of an iteration | instructions per element |")
    print("| --- | --- | --- | --- | --- |")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for unit, (source, flags) in UNITS.items():
            obj = f"{folder}/{unit}.o"
            subprocess.run(["aarch64-linux-gnu-g++", *FLAGS, *flags, "-c", str(CPU / source), "-o", obj], check=True)
            for name, code in functions(obj).items():
                for i, (pattern, (op, wanted)) in enumerate(OPS.items()):
                    match = re.search(pattern, name)
                    found = match and passes(code, TYPES[match[1]][1], wanted)
                    if found:
                        text = " + ".join(f"{n}/{e}" for n, e in found)
                        total = sum(n / e for n, e in found)
                        dtype = TYPES[match[1]][0]
                        rows.append((i, dtype, unit, f"| {op} | {dtype} | {unit} | {text} | {total:.2f} |"))
    expected = len(OPS) * len(TYPES) * len(UNITS)
    if len(rows) != expected:
        raise SystemExit(f"neon_counts.py: found {len(rows)} of {expected} main loops; the compiler lays them out in another way")
    for *_, row in sorted(rows):
        print(row)


if __name__ == "__main__":
    main()
