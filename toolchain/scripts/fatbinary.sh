#!/bin/sh
# clang 19 speaks to the fatbinary of CUDA 12; this one is of CUDA 13, where
# --image=profile=sm_80,file=F reads --image3=kind=elf,sm=80,file=F.
n=$#
while [ "$n" -gt 0 ]; do
  arg=$1; shift; n=$((n - 1))
  case $arg in
  --image=profile=sm_*) arg=--image3=kind=elf,sm=${arg#--image=profile=sm_} ;;
  --image=profile=compute_*) arg=--image3=kind=ptx,sm=${arg#--image=profile=compute_} ;;
  esac
  set -- "$@" "$arg"
done
exec "$0.real" "$@"
