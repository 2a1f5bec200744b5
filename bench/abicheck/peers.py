"""Runs the peers of abicheck on libraries: peers.py FILE...

Prints JSON: for each file and peer the rules of abicheck that the peer's own
words amount to. Promises are those of a kernel: manylinux_2_28, Python 3.9's
stable ABI.
"""
import base64, hashlib, json, os, re, subprocess, sys, tempfile, zipfile

import kernel_abi_check

BIN = os.path.dirname(sys.executable)


def run(*argv):
    p = subprocess.run([os.path.join(BIN, argv[0]), *argv[1:]], capture_output=True, text=True)
    return p.stdout, p.stdout + p.stderr


def kernel(path):
    """What kernel-builder runs; the Python module of the same release."""
    f = kernel_abi_check.ObjectFile(path)
    found = []
    if f.check_manylinux("manylinux_2_28"):
        found.append("MANYLINUX")
    if f.check_python_abi("3.9"):
        found.append("ABI3")
    return found


def abi3audit(path):
    out, _ = run("abi3audit", "--report", "--assume-minimum-abi3", "3.9", path)
    found = []
    for spec in json.loads(out)["specs"].values():
        r = spec["object"]["result"]
        if r["non_abi3_symbols"] or r["future_abi3_objects"]:
            found.append("ABI3")
    return found


def checksec(path):
    out, _ = run("checksec", "-j", path)
    (r,) = json.loads(out).values()
    found = []
    if r["relro"] != "Full":
        found.append("RELRO")
    if not r["nx"]:
        found.append("EXECSTACK")
    if r["rpath"] or r["runpath"]:
        found.append("RPATH")
    return found


def wheel(path, to):
    """auditwheel looks at wheels: one around the library."""
    files = {"k/__init__.py": b"", "k/" + os.path.basename(path): open(path, "rb").read(),
             "k-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: k\nVersion: 1\n",
             "k-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: false\nTag: cp39-abi3-linux_x86_64\n"}
    record = "".join("%s,sha256=%s,%d\n" % (n, base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b"=").decode(), len(b))
                     for n, b in files.items()) + "k-1.dist-info/RECORD,,\n"
    name = os.path.join(to, "k-1-cp39-abi3-linux_x86_64.whl")
    with zipfile.ZipFile(name, "w") as z:
        for n, b in {**files, "k-1.dist-info/RECORD": record.encode()}.items():
            z.writestr(n, b)
    return name


def auditwheel(path):
    with tempfile.TemporaryDirectory() as d:
        _, text = run("auditwheel", "show", wheel(path, d))
    text = " ".join(text.split())
    m = re.search(r'platform tag: "?(manylinux_(\d+)_(\d+)|linux|manylinux1|manylinux2010|manylinux2014)_x86_64', text)
    if not m:
        raise SystemExit("auditwheel gave no platform tag: " + text)
    found = []
    if m.group(1) == "linux" or m.group(2) and (int(m.group(2)), int(m.group(3))) > (2, 28):
        found.append("MANYLINUX")
    if re.search(r"x86.64.v[234]|ISA ext", text):
        found.append("ISA-NOTE")
    return found


PEERS = {"auditwheel": auditwheel, "kernel-abi-check": kernel, "abi3audit": abi3audit, "checksec": checksec}
print(json.dumps({path: {name: peer(path) for name, peer in PEERS.items()} for path in sys.argv[1:]}))
