#!/usr/bin/env bash
# Runs the suite against the built and published CPU variant, as a user gets it:
# built by thoxbuild, published to an embedded Hub, downloaded by the unmodified
# `kernels` library at its pinned revision. Once with the unit that the host's
# CPU selects, then with each slower one forced. Run by `make test`.
#
# Usage: run.sh [--all] [PYTEST ARGUMENTS]. --all adds the remaining units of
# the host; without it the forced ones are baseline and avx2.
# With THOXBUILD_KERNEL_DIR set, nothing is built: that folder is tested.
set -euo pipefail
cd "$(dirname "$0")/../.."

all=false
if [ "${1-}" = --all ]; then all=true; shift; fi

VARIANT="torch213-cxx11-cpu-$(uname -m)-linux"
REPO=thox-ai/thox-edge-ops
WORK=$PWD/.cache/suite
PYTHON=$PWD/.venv/bin/python
mkdir -p "$WORK"

if [ -z "${THOXBUILD_KERNEL_DIR-}" ]; then
  PATH=$PWD/bin:$PATH
  export HF_HOME=$WORK/hf HF_TOKEN=
  rm -rf "$WORK/hub" "$WORK/url"
  thoxbuild hub serve --dir "$WORK/hub" --addr 127.0.0.1:0 >"$WORK/url" 2>"$WORK/hub.log" &
  hub=$!
  trap 'kill $hub 2>/dev/null; wait $hub 2>/dev/null || true' EXIT
  for _ in $(seq 100); do [ -s "$WORK/url" ] && break; kill -0 $hub 2>/dev/null || break; sleep 0.05; done
  [ -s "$WORK/url" ] || { echo "suite: the Hub did not start:" >&2; cat "$WORK/hub.log" >&2; exit 1; }
  HF_ENDPOINT=$(head -n 1 "$WORK/url")
  export HF_ENDPOINT
  thoxbuild build --variant "$VARIANT"
  thoxbuild publish --repo "$REPO" --variant "$VARIANT" --partial --allow-dirty --lock "$WORK/thoxbuild.lock"
  THOXBUILD_KERNEL_REPO=$REPO
  THOXBUILD_KERNEL_REVISION=$("$PYTHON" - "$WORK/thoxbuild.lock" "$REPO" <<'PY'
import json, sys
path, repo = sys.argv[1:]
print(next(k["revision"] for k in json.load(open(path))["kernels"] if k["repo"] == repo))
PY
  )
  export THOXBUILD_KERNEL_REPO THOXBUILD_KERNEL_REVISION
fi

units=$(cd tests/python && "$PYTHON" -c 'import conftest; print(*conftest.load_kernel("cpu").cpu_isa_choices())')
for unit in '' $units; do
  case $unit in
    '' | baseline | avx2) ;;
    *) $all || continue ;;
  esac
  echo "suite: unit ${unit:-the fastest}, of: $units"
  THOX_EDGE_OPS_CPU_ISA=$unit "$PYTHON" -m pytest -q -p no:cacheprovider tests/python "$@"
done
