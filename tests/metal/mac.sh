#!/usr/bin/env bash
# Builds the Metal backend on a Mac and runs it on the GPU: what only a Mac can
# show. Usage: mac.sh OUT [PYTHON]
#
# thoxbuild builds and checks the variant of the torch that PYTHON has, with
# Xcode; THOXBUILD names a finished one, else Go builds it. OUT/thox_edge_ops is
# then an importable package, on which mac_check.py runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: mac.sh OUT [PYTHON]}
python=${2:-python3}
mkdir -p "$out"
variant=$("$python" -c 'import torch; print("torch{}{}-metal-aarch64-darwin".format(*torch.__version__.split(".")))')
thoxbuild=${THOXBUILD:-$out/thoxbuild}
[ -n "${THOXBUILD:-}" ] || go build -o "$thoxbuild" ./cmd/thoxbuild
"$thoxbuild" build --variant "$variant" --out "$out/build"
"$thoxbuild" abicheck "$out/build"
ln -sfn "build/$variant" "$out/thox_edge_ops"
PYTHONPATH=$out "$python" tests/metal/mac_check.py mps
