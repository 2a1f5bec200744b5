#!/usr/bin/env bash
# The main job, as a kernel author would type it: build, check, publish to the
# embedded Hub, load with the unmodified `kernels` library. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/../.."

VARIANT='torch213-cxx11-cpu-x86_64-linux'
REPO=thox-ai/thox-edge-ops
DEMO=$PWD/.demo
PATH=$PWD/bin:$PATH
export HF_HOME=$DEMO/hf HF_TOKEN=
mkdir -p "$DEMO"

run() { printf '\n$ %s\n' "$*"; "$@"; }

# The Hub prints its address as its first line; a free port is chosen for it.
rm -f "$DEMO/url"
thoxbuild hub serve --dir "$DEMO/hub" --addr 127.0.0.1:0 >"$DEMO/url" 2>"$DEMO/hub.log" &
hub=$!
trap 'kill $hub 2>/dev/null; wait $hub 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -s "$DEMO/url" ] && break; kill -0 $hub 2>/dev/null || break; sleep 0.05; done
[ -s "$DEMO/url" ] || { echo "demo: the Hub did not start:" >&2; cat "$DEMO/hub.log" >&2; exit 1; }
HF_ENDPOINT=$(head -n 1 "$DEMO/url")
export HF_ENDPOINT
printf '$ thoxbuild hub serve --dir .demo/hub --addr 127.0.0.1:0 &\n%s\n' "$HF_ENDPOINT"

run thoxbuild matrix
run thoxbuild build --variant "$VARIANT"
run thoxbuild abicheck build/
run thoxbuild publish --repo "$REPO" --variant "$VARIANT" --partial --allow-dirty --lock .demo/thoxbuild.lock
run .venv/bin/python tests/demo/load.py "$REPO" .demo/thoxbuild.lock
