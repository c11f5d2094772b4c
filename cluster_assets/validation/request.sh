#!/usr/bin/env bash
# request.sh REQUEST [WORD...]: what the validation document of Systems Manager runs on the head node, as root.
#
# The request is carried out by request_handler.py as the cluster's user in a login shell, as if that user had typed it. One line of JSON is the
# answer. The document lets no word pass that means something to a shell.
set -euo pipefail

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
readonly WORD='^[A-Za-z0-9_.,:/=-]+$'

request::fail() {
  printf 'validation: %s\n' "$*" >&2
  exit 1
}

# The same Pythons as the jobs look for.
request::python() {
  local name
  for name in python3 python3.12 python3.11 python3.9; do
    if command -v "${name}" >/dev/null && "${name}" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
      command -v "${name}"
      return 0
    fi
  done
  request::fail "no Python of 3.9 or later on the head node: install python3.11, or use an AMI that has one"
}

request::main() {
  local user word python
  (($#)) || request::fail "a request is missing"
  for word in "$@"; do
    [[ "${word}" =~ ${WORD} ]] || request::fail "the word '${word}' has characters that are not allowed"
  done
  user="$(jq -er .cluster.user "${TRAINYARD_SETTINGS}")" || request::fail "cannot read the cluster's user from ${TRAINYARD_SETTINGS}"
  python="$(request::python)"
  exec runuser -l "${user}" -c "exec ${python} ${HERE}/request_handler.py --settings ${TRAINYARD_SETTINGS} $*"
}

request::main "$@"
