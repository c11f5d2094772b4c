#!/usr/bin/env bash
# request.sh REQUEST [WORD...]: what the validation document of Systems Manager runs on the head node, as root.
#
# request_handler.py carries out the request as the cluster's user in a login shell, and prints one line of JSON. The document, and the check
# below, let no word pass that has a meaning to a shell. Only `drain` needs root: Slurm drains nodes for its administrators.
set -euo pipefail

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
SCONTROL="${SCONTROL:-/opt/slurm/bin/scontrol}" # root's PATH has no Slurm
LOG_NAME=validation

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
readonly WORD='^[A-Za-z0-9_.,:/=-]+$'
. "${HERE}/../lib/base.sh"

request::main() {
  local user word python answer
  (($#)) || log::fail "a request is missing"
  for word in "$@"; do
    [[ "${word}" =~ ${WORD} ]] || log::fail "the word '${word}' has characters that are not allowed"
  done
  user="$(jq -er .cluster.user "${TRAINYARD_SETTINGS}")" || log::fail "cannot read the cluster's user from ${TRAINYARD_SETTINGS}"
  python="$(base::python)"
  local -r line="exec ${python} ${HERE}/request_handler.py --settings ${TRAINYARD_SETTINGS} $*"
  [[ "$1" == drain ]] || exec runuser -l "${user}" -c "${line}"
  answer="$(runuser -l "${user}" -c "${line}")"
  request::drain "${answer}"
}

# drain ANSWER: drain the nodes of request_handler.py's answer, and print it.
request::drain() {
  local name reason
  while IFS=$'\t' read -r name reason; do
    [[ "${name}" =~ ^[A-Za-z0-9-]+$ && "${reason}" =~ ^[A-Za-z0-9\ .:/-]+$ ]] || log::fail "'${name}' is not the name of a node"
    "${SCONTROL}" update "nodename=${name}" state=drain "reason=${reason}" || log::fail "cannot drain ${name}, its reason is above"
  done < <(jq -r '.drain | to_entries[] | "\(.key)\t\(.value)"' <<<"$1")
  printf '%s\n' "$1"
}

request::main "$@"
