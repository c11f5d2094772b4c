#!/usr/bin/env bash
# request.sh REQUEST [WORD...]: what the validation document of Systems Manager runs on the head node, as root.
#
# request_handler.py carries out the request as the cluster's user in a login shell, and prints one line of JSON. The document, and the check
# below, let no word pass that has a meaning to a shell.
set -euo pipefail

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
LOG_NAME=validation

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
readonly WORD='^[A-Za-z0-9_.,:/=-]+$'
. "${HERE}/../lib/base.sh"

request::main() {
  local user word python
  (($#)) || log::fail "a request is missing"
  for word in "$@"; do
    [[ "${word}" =~ ${WORD} ]] || log::fail "the word '${word}' has characters that are not allowed"
  done
  user="$(jq -er .cluster.user "${TRAINYARD_SETTINGS}")" || log::fail "cannot read the cluster's user from ${TRAINYARD_SETTINGS}"
  python="$(base::python)"
  exec runuser -l "${user}" -c "exec ${python} ${HERE}/request_handler.py --settings ${TRAINYARD_SETTINGS} $*"
}

request::main "$@"
