#!/usr/bin/env bash
# request.sh REQUEST [WORD...]: what the usage document of Systems Manager runs on the head node, as root.
#
# usage.py answers as Slurm's own user, who may read the records of all users also with PrivateData, and nothing else of this node.
set -euo pipefail

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
TRAINYARD_USAGE="${TRAINYARD_USAGE:-/var/lib/trainyard/usage}"
LOG_NAME=usage

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
readonly WORD='^[a-z0-9]+$'
. "${HERE}/../lib/base.sh"

(($#)) || log::fail "a request is missing"
for word in "$@"; do
  [[ "${word}" =~ ${WORD} ]] || log::fail "the word '${word}' has characters that are not allowed"
done
python="$(base::python)"
install -d -m 0700 -o slurm "${TRAINYARD_USAGE}"
exec runuser -u slurm -- env "PATH=/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin" "${python}" "${HERE}/usage.py" --settings "${TRAINYARD_SETTINGS}" \
  --folder "${TRAINYARD_USAGE}" "$@"
