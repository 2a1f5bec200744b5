#!/usr/bin/env bash
# Compiles the Metal backend on a Mac with Xcode and loads it into the torch of
# a Python environment: what only a Mac can show. Usage: mac.sh OUT [PYTHON]
#
# The Metal command lines are those of thoxbuild (compile/metal.go); host code
# and link are what Xcode needs for an extension of an installed torch. Writes
# OUT/thox_edge_ops, an importable package, and runs mac_check.py on it.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: mac.sh OUT [PYTHON]}
python=${2:-python3}
kernel=kernels-src/thox-edge-ops
ops=_thox_edge_ops_metal_dev
mkdir -p "$out/obj" "$out/thox_edge_ops"
torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')

airs=()
for s in norm gate rotary prologue; do
  xcrun -sdk macosx metal -std=metal4.0 -O2 -I$kernel/metal -c "$kernel/metal/$s.metal" -o "$out/obj/$s.air"
  airs+=("$out/obj/$s.air")
done
xcrun -sdk macosx metallib -o "$out/obj/out.metallib" "${airs[@]}"
"$python" tests/metal/embed.py "$out/obj/out.metallib" ${ops}_metal >"$out/obj/${ops}_metallib.h"

cxx=(xcrun -sdk macosx clang++ -arch arm64 -mmacosx-version-min=26.0 -std=c++20 -O3 -DNDEBUG -fPIC -fvisibility=hidden
  -DMETAL_KERNEL "-DTORCH_EXTENSION_NAME=$ops" "-DEMBEDDED_METALLIB_HEADER=\"${ops}_metallib.h\""
  "-DEMBEDDED_METALLIB_NAMESPACE=${ops}_metal" "-I$out/obj" -Icompile/glue "-I$kernel/metal"
  "-I$torch/include" "-I$torch/include/torch/csrc/api/include")
"${cxx[@]}" -c $kernel/torch-ext/torch_binding.cpp -o "$out/obj/torch_binding.o"
"${cxx[@]}" -c $kernel/metal/edge_ops_metal.mm -o "$out/obj/edge_ops_metal.o"
xcrun -sdk macosx clang++ -arch arm64 -mmacosx-version-min=26.0 -bundle -undefined dynamic_lookup \
  -o "$out/thox_edge_ops/$ops.abi3.so" "$out/obj/torch_binding.o" "$out/obj/edge_ops_metal.o" \
  "-L$torch/lib" -ltorch -ltorch_cpu -lc10 -framework Metal -framework Foundation

cp $kernel/torch-ext/thox_edge_ops/*.py "$out/thox_edge_ops/"
cat >"$out/thox_edge_ops/_ops.py" <<PY
import torch

from . import $ops

ops = torch.ops.$ops


def add_op_namespace_prefix(op_name: str) -> str:
    return f"$ops::{op_name}"
PY
PYTHONPATH=$out "$python" tests/metal/mac_check.py mps
