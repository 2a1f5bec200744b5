#!/usr/bin/env bash
# Builds units_test for this machine and for aarch64, and runs it with every
# unit, the latter under qemu. Then measures the exponential of each unit.
#
# Usage: run.sh [--exhaustive]; with it the exponential is measured over every
# float32, without it over a sample.
# Needs g++; for aarch64 also aarch64-linux-gnu-g++ and qemu-aarch64 (Debian:
# g++-aarch64-linux-gnu, qemu-user), and says so where they are missing.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sample=sample
if [ "${1-}" = --exhaustive ]; then sample=; fi

# GCC's own AVX-512 header makes it warn of uninitialized values.
common=(-std=c++17 -O2 -Wall -Wextra -Wno-maybe-uninitialized -Wno-uninitialized)
unit=(-O3 -ffp-contract=off -fno-math-errno)
avx2=(-mavx2 -mfma -mf16c)
avx512=("${avx2[@]}" -mavx512f -mavx512bw -mavx512vl -mavx512dq)
sources=(units_test ../cpu/dispatch ../cpu/edge_ops_cpu ../cpu/rows_baseline)

compile() { # CXX SOURCE FLAGS...
  local cxx=$1 source=$2
  shift 2
  "$cxx" "${common[@]}" "${unit[@]}" "$@" -c "$source.cpp" -o "$work/$cxx-$(basename "$source").o"
}

case $(uname -m) in
  x86_64)
    for s in "${sources[@]}"; do compile g++ "$s"; done
    compile g++ ../cpu/rows_avx2 "${avx2[@]}"
    compile g++ ../cpu/rows_avx512 "${avx512[@]}"
    compile g++ ../cpu/rows_avx512_bf16 "${avx512[@]}" -mavx512bf16
    g++ -o "$work/test" "$work"/g++-*.o
    units=$("$work/test" | sed -n 's/^unit .*, of: //p' | tr -d ,)
    for u in $units; do THOX_EDGE_OPS_CPU_ISA=$u "$work/test"; done
    exp() { echo "exponential, $1:"; shift; g++ "${common[@]}" "${unit[@]}" "$@" exp_error.cpp -o "$work/exp"; "$work/exp" $sample; }
    exp baseline
    case " $units " in *' avx2 '*) exp avx2 "${avx2[@]}" ;; esac
    case " $units " in *' avx512 '*) exp avx512 "${avx512[@]}" ;; esac
    ;;
  aarch64) ;;
  *) echo "units_test: no units for $(uname -m)" >&2; exit 1 ;;
esac

cxx=g++ emulator=
if [ "$(uname -m)" != aarch64 ]; then
  cxx=aarch64-linux-gnu-g++ emulator=qemu-aarch64
  for tool in $cxx $emulator; do
    command -v $tool >/dev/null || { echo "units_test: skipped aarch64: $tool is not installed"; exit 0; }
  done
fi
for s in "${sources[@]}"; do compile $cxx "$s"; done
compile $cxx ../cpu/rows_neon_bf16 -march=armv8.2-a+bf16
$cxx -static -o "$work/test-arm" "$work/$cxx"-*.o
for u in $($emulator "$work/test-arm" | sed -n 's/^unit .*, of: //p' | tr -d ,); do
  THOX_EDGE_OPS_CPU_ISA=$u $emulator "$work/test-arm"
done
echo "exponential, neon:"
$cxx -static "${common[@]}" "${unit[@]}" exp_error.cpp -o "$work/exp-arm"
$emulator "$work/exp-arm" sample
