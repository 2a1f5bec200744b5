#!/usr/bin/env bash
# Runs the suite against the built and published CPU variants, as a user gets
# them: built by thoxbuild, published to an embedded Hub, downloaded by the
# unmodified `kernels` library at their pinned revision, loaded in a torch of the
# version that they are for. Run by `make test` for two torch versions.
#
# Usage: run.sh [--torch X.Y] [--all] [--discard] [PYTEST ARGUMENTS]
#   --torch X.Y  the torch version, 2.13 unless given; each but 2.13 has a virtual
#                environment of its own (venv.sh)
#   --all        more than `make test` does: every instruction set of the host and
#                the build for the stable ABI with torch 2.13 too
#   --discard    remove the virtual environment if this run made it
# With THOXBUILD_KERNEL_DIR set, nothing is built: that folder is tested.
set -euo pipefail
cd "$(dirname "$0")/../.."

torch=2.13 all=false discard=false
while [ $# -gt 0 ]; do
  case $1 in
    --torch) torch=$2; shift 2 ;;
    --all) all=true; shift ;;
    --discard) discard=true; shift ;;
    *) break ;;
  esac
done

venv=$PWD/.venvs/torch${torch//./}
[ ! -d "$venv" ] || discard=false
hub=
cleanup() {
  [ -z "$hub" ] || { kill "$hub" && wait "$hub"; } 2>/dev/null || true
  rm -rf "$WORK"
  ! $discard || rm -rf "$venv"
}
# A folder of this run alone: two of them at once, in one checkout or in several
# that share .cache, would take each other's Hub and kernels.
mkdir -p .cache
WORK=$(mktemp -d "$PWD/.cache/suite-XXXXXX")
trap cleanup EXIT
python=$(tests/python/venv.sh "$torch")

# publish VARIANT REPO: builds, publishes, and says what conftest.py loads.
publish() {
  thoxbuild build --variant "$1"
  thoxbuild publish --repo "$2" --variant "$1" --partial --allow-dirty --lock "$WORK/thoxbuild.lock"
  THOXBUILD_KERNEL_REPO=$2
  THOXBUILD_KERNEL_REVISION=$("$python" - "$WORK/thoxbuild.lock" "$2" <<'PY'
import json, sys
path, repo = sys.argv[1:]
print(next(k["revision"] for k in json.load(open(path))["kernels"] if k["repo"] == repo))
PY
  )
  export THOXBUILD_KERNEL_REPO THOXBUILD_KERNEL_REVISION
}

# suite UNITS PYTEST-ARGUMENTS: once with the unit that the CPU selects, then
# with each of UNITS that the host has ("all": with each that it has) forced.
suite() {
  local chosen=$1 unit units
  shift
  units=$(cd tests/python && "$python" -c 'import conftest; print(*conftest.load_kernel("cpu").cpu_isa_choices())')
  for unit in '' $units; do
    [[ -z $unit || $chosen = all || " $chosen " = *" $unit "* ]] || continue
    echo "suite: torch $torch, ${THOXBUILD_KERNEL_REPO-$THOXBUILD_KERNEL_DIR}, unit ${unit:-the fastest}, of: $units"
    THOX_EDGE_OPS_CPU_ISA=$unit "$python" -m pytest -q -p no:cacheprovider tests/python "$@"
  done
}

# The instruction sets are forced where they can differ: in one torch version.
forced=
if [ "$torch" = 2.13 ]; then
  forced='baseline avx2'
  ! $all || forced=all
fi

if [ -n "${THOXBUILD_KERNEL_DIR-}" ]; then
  suite "$forced" "$@"
  exit
fi

PATH=$PWD/bin:$PATH
export HF_HOME=$WORK/hf HF_TOKEN=
thoxbuild hub serve --dir "$WORK/hub" --addr 127.0.0.1:0 >"$WORK/url" 2>"$WORK/hub.log" &
hub=$!
for _ in $(seq 100); do [ -s "$WORK/url" ] && break; kill -0 $hub 2>/dev/null || break; sleep 0.05; done
[ -s "$WORK/url" ] || { echo "suite: the Hub did not start:" >&2; cat "$WORK/hub.log" >&2; exit 1; }
HF_ENDPOINT=$(head -n 1 "$WORK/url")
export HF_ENDPOINT

platform=cpu-$(uname -m)-linux
publish "torch${torch//./}-cxx11-$platform" thox-ai/thox-edge-ops
suite "$forced" "$@"
# The loader prefers the stable-ABI form wherever both are there, so it gets a
# repository of its own.
if $all || [ "$torch" != 2.13 ]; then
  publish "torch-stable-abi211-$platform" thox-ai/thox-edge-ops-stable
  suite '' "$@"
fi
