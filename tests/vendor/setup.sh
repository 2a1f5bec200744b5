#!/bin/bash
# Makes installations of ROCm 7.2 and oneAPI 2026.0 in DIR/rocm and DIR/oneapi,
# whose compilers are the stand-ins beside this file, and copies a small kernel
# for both to DIR/relu. Usage: setup.sh DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shopt -s nullglob
zig=("$here"/../../.cache/store/tools/zig-0*/zig)
[ "${#zig[@]}" -gt 0 ] || { echo "setup.sh: no zig in .cache/store; run 'make demo' once" >&2; exit 1; }
rm -rf "$dir/rocm" "$dir/oneapi" "$dir/relu"
compiler=$dir/oneapi/compiler/latest
mkdir -p "$dir/rocm/bin" "$dir/rocm/lib" "$compiler/bin" "$compiler/lib"
cp "$here/hipcc" "$dir/rocm/bin/hipcc"
cp "$here/icpx" "$compiler/bin/icpx"
printf '#!/bin/sh\nexit 0\n' >"$compiler/bin/ocloc"
chmod +x "$compiler/bin/ocloc"
cp -r "$here/include-hip" "$dir/rocm/include"
cp -r "$here/include-sycl" "$compiler/include"
for to in "$dir/rocm" "$compiler"; do ln -s "${zig[-1]}" "$to/zig"; done
library() { # FILE SYMBOL: a library that defines one function
  echo ".globl $2; .type $2,@function; $2: ret; .size $2,.-$2; .section .note.GNU-stack,\"\",@progbits" |
    gcc -shared -nostdlib -Wl,-soname,"${1##*/}" -x assembler - -o "$1"
}
library "$dir/rocm/lib/libamdhip64.so.7" __hipRegisterFatBinary
library "$compiler/lib/libsycl.so.8" thox_sycl_submit
cp -r "$here/relu" "$dir/relu"
