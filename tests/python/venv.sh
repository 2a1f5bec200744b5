#!/usr/bin/env bash
# Makes the virtual environment of a torch version, .venvs/torch<XY>, and prints
# its Python. Everything but torch is pinned by tests/requirements.txt, whose own
# torch is in .venv. Each environment takes about 5 GB.
#
# Usage: venv.sh 2.15
set -euo pipefail
cd "$(dirname "$0")/../.."

# The patch releases are those whose headers toolchain.lock pins.
release=$(grep -o "\"torch-$1\.[0-9]*-" toolchain.lock | head -n 1 | tr -d '"' | cut -d- -f2) || true
[ -n "$release" ] || { echo "venv: toolchain.lock has no torch $1" >&2; exit 2; }
if grep -qx "torch==$release" tests/requirements.txt; then
  echo "$PWD/.venv/bin/python"
  exit
fi

venv=$PWD/.venvs/torch${1//./}
want=$(sed "s/^torch==.*/torch==$release/" tests/requirements.txt)
# The stamp is written last, so a killed install is done again.
if [ "$want" != "$(cat "$venv/.stamp" 2>/dev/null)" ]; then
  echo "venv: installing torch $release into .venvs/torch${1//./}" >&2
  rm -f "$venv/.stamp"
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check -r /dev/stdin <<<"$want" >&2
  echo "$want" >"$venv/.stamp"
fi
echo "$venv/bin/python"
