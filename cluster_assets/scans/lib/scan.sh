# shellcheck shell=bash
# What each scan starts with: defaults, libraries, arguments, the end.
set -euo pipefail
export LC_ALL=C.UTF-8
# bash keeps a HOSTNAME that it was given, and in a step of Slurm that is the first node's.
[[ ! -r /proc/sys/kernel/hostname ]] || HOSTNAME="$(</proc/sys/kernel/hostname)"

# Overridable. With TRAINYARD_ROOT set, files are looked for below that folder.
SCANS="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly SCANS
export TRAINYARD_ROOT="${TRAINYARD_ROOT:-}"
export TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-${TRAINYARD_ROOT}/opt/trainyard/settings.json}"
SCAN_MINIMUMS="${SCAN_MINIMUMS:-${SCANS}/minimums.json}"
# A driver that hangs must not hang the scan.
SCAN_SECONDS="${SCAN_SECONDS:-20}"
# Where tools are that a service's PATH does not have.
SCAN_PATH="${SCAN_PATH-/usr/local/bin:/opt/slurm/bin:/opt/slurm/sbin:/opt/amazon/efa/bin:/usr/local/cuda/bin:/usr/sbin:/sbin}"
export PATH="${PATH}${SCAN_PATH:+:${SCAN_PATH}}"

# shellcheck source=cluster_assets/scans/lib/report.sh
. "${SCANS}/lib/report.sh"
# shellcheck source=cluster_assets/scans/lib/versions.sh
. "${SCANS}/lib/versions.sh"
# shellcheck source=cluster_assets/scans/lib/minimums.sh
. "${SCANS}/lib/minimums.sh"

# wrong TEXT: ends with the reason and how to get help.
scan::wrong() {
  printf '%s: %s\nsee %s --help\n' "${0##*/}" "$1" "${0##*/}" >&2
  exit 64
}

# bounded COMMAND...: its output in ANSWER (stdout and stderr), its status as the status: 124 after SCAN_SECONDS, 127 where there is no such
# command.
scan::bounded() {
  command -v "$1" >/dev/null || {
    ANSWER="no $1"
    return 127
  }
  local status=0
  # shellcheck disable=SC2034 # for those who call this
  ANSWER="$(timeout --kill-after=2 "${SCAN_SECONDS}" "$@" 2>&1 </dev/null)" || status="$?"
  ((status != 137)) || status=124
  return "${status}"
}

# show STYLE SCAN TITLE: prints the report as a table or as JSON, and ends with its exit code.
scan::show() {
  if [[ "$1" == json ]]; then
    report::json "$2"
  else
    report::table "$3"
  fi
  exit "$(report::exit_code)"
}
