#!/bin/sh
# nvcc digests the absolute path of its source into symbol names. The path in
# the action's folder takes its place, so that every folder gives these bytes.
n=$#
while [ "$n" -gt 0 ]; do
  arg=$1; shift; n=$((n - 1))
  if [ "$arg" = --orig_src_path_name ]; then
    set -- "$@" "$arg"
    arg=/thox/${1#"$PWD"/}; shift; n=$((n - 1))
  fi
  set -- "$@" "$arg"
done
exec "$0.real" "$@"
