"""Builds thox-edge-ops for the CPU with torch.utils.cpp_extension: peer.py WORKSPACE OUT."""

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tomllib
from torch.utils import cpp_extension

root, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
kernel = os.path.join(root, "kernels-src", "thox-edge-ops")
os.makedirs(out)
manifest = tomllib.load(open(os.path.join(kernel, "build.toml"), "rb"))
x86 = platform.machine() == "x86_64"


def sources(section):
    return [os.path.join(kernel, f) for f in section["src"] if f.endswith(".cpp")]


def other_processor(flags):
    return any(f.startswith("-march=arm" if x86 else "-mavx") for f in flags)


plain, objects = sources(manifest["torch"]), []
for name, section in manifest["kernel"].items():
    flags = section.get("cxx-flags", [])
    if section["backend"] != "cpu" or other_processor(flags):
        continue
    if any(f.startswith("-m") for f in flags):
        objects += [(src, flags) for src in sources(section)]
    else:
        plain += sources(section)


def compile_unit(item):
    src, flags = item
    obj = os.path.join(out, os.path.basename(src) + ".o")
    subprocess.run(["g++", "-std=c++20", "-fPIC", "-fvisibility=hidden", *flags, "-I" + os.path.join(kernel, "cpu"), "-DCPU_KERNEL", "-c", src, "-o", obj], check=True)
    return obj


with ThreadPoolExecutor(os.cpu_count()) as pool:
    units = list(pool.map(compile_unit, objects))
cpp_extension.load(
    name="peer_edge_ops",
    sources=plain,
    extra_cflags=["-std=c++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-DCPU_KERNEL"],
    extra_include_paths=[os.path.join(kernel, d) for d in ("cpu", "cuda", "metal", "torch-ext")] + [os.path.join(root, "compile", "glue")],
    extra_ldflags=units,
    build_directory=out,
    is_python_module=False,
)
print("built", [f for f in os.listdir(out) if f.endswith(".so")])
