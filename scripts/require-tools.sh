#!/usr/bin/env bash
# Checks the tools that the installation needs, and prints what to do if one is missing.
set -euo pipefail

readonly python="${1:-python3}"
readonly least_python="3.11" least_node="20"
missing=0

require::say() {
  printf 'trainyard: %s\n' "$1" >&2
  missing=1
}

if ! command -v "$python" >/dev/null; then
  require::say "$python is not on the PATH. Wanted: Python $least_python or later. Install it, or name one: make PYTHON=/path/to/python3"
elif ! "$python" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$least_python'.split('.'))))"; then
  require::say "$("$python" --version) is too old. Wanted: $least_python or later. Name another: make PYTHON=/path/to/python3"
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  require::say "$python has no venv module. On Debian and Ubuntu: apt-get install python3-venv"
fi

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  require::say "node and npm are not on the PATH. Wanted: Node.js $least_node or later, for the AWS CDK"
elif (($(node --version | sed 's/^v\([0-9]*\).*/\1/') < least_node)); then
  require::say "Node.js $(node --version) is too old. Wanted: $least_node or later"
fi

exit "$missing"
