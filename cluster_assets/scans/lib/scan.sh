# Sourced by every scan: defaults, bounded commands, and the report as a table or as JSON (report.schema.json). Needs only bash and coreutils,
# because scans run in any image.
set -euo pipefail
export LC_ALL=C.UTF-8
# bash keeps an inherited HOSTNAME, which in a Slurm step is the first node's.
[[ ! -r /proc/sys/kernel/hostname ]] || HOSTNAME="$(</proc/sys/kernel/hostname)"

# Overridable. With TRAINYARD_ROOT set, files are read below that folder.
SCANS="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly SCANS
export TRAINYARD_ROOT="${TRAINYARD_ROOT:-}"
export TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-${TRAINYARD_ROOT}/opt/trainyard/settings.json}"
SCAN_MINIMUMS="${SCAN_MINIMUMS:-${SCANS}/minimums.json}"
SCAN_SECONDS="${SCAN_SECONDS:-20}" # per command: a driver that hangs must not hang the scan
# Folders of tools that a service's PATH lacks.
SCAN_PATH="${SCAN_PATH-/usr/local/bin:/opt/slurm/bin:/opt/slurm/sbin:/opt/amazon/efa/bin:/usr/local/cuda/bin:/usr/sbin:/sbin}"
export PATH="${PATH}${SCAN_PATH:+:${SCAN_PATH}}"

scan::wrong() {
  printf '%s: %s\nsee %s --help\n' "${0##*/}" "$1" "${0##*/}" >&2
  exit 64
}

# run COMMAND...: set ANSWER (stdout and stderr) and STATUS (124 after SCAN_SECONDS, 127 for a missing command).
scan::run() {
  local part status=0
  ANSWER="" STATUS=1
  command -v "$1" >/dev/null || {
    # shellcheck disable=SC2034 # read by the checks
    ANSWER="no $1" STATUS=127
    return 0
  }
  # Up to the status, not to the end of the pipe: a program that hangs in the driver survives SIGKILL and keeps the pipe open.
  while IFS= read -r -d '' part; do
    if [[ "${part}" =~ ^exit\ status\ ([0-9]+)$ ]]; then
      STATUS="${BASH_REMATCH[1]}"
      break
    fi
    ANSWER+="${part}"
  done < <(
    timeout --kill-after=2 "${SCAN_SECONDS}" "$@" 2>&1 </dev/null || status="$?"
    printf '\0exit status %d\0' "${status}"
  )
  ANSWER="${ANSWER%"${ANSWER##*[!$'\n']}"}"
  ((STATUS != 137)) || STATUS=124
}

REPORT_NAMES=() REPORT_VERDICTS=() REPORT_FOUND=() REPORT_WANTED=() REPORT_ACTIONS=()
REPORT_TIMEOUTS=() # names of checks that timed out, which can happen once on a busy node
declare -A REPORT_COUNTS=([ok]=0 [warning]=0 [failure]=0 [skipped]=0)

# add NAME VERDICT FOUND WANTED [ACTION]: VERDICT is ok, warning, failure or skipped. ACTION is dropped if it is ok.
report::add() {
  REPORT_NAMES+=("$1")
  REPORT_VERDICTS+=("$2")
  REPORT_FOUND+=("${3:-nothing}")
  REPORT_WANTED+=("$4")
  [[ "$2" != ok ]] || set -- "${@:1:4}"
  REPORT_ACTIONS+=("${5:-}")
  REPORT_COUNTS["$2"]=$((REPORT_COUNTS["$2"] + 1))
}

# require NAME FOUND WANTED ACTION CONDITION...: ok if the test CONDITION holds, otherwise a failure.
report::require() {
  local verdict=ok
  [ "${@:5}" ] || verdict=failure
  report::add "$1" "${verdict}" "${@:2:3}"
}

# timeout NAME WANTED ACTION
report::timeout() {
  report::add "$1" failure "no answer in ${SCAN_SECONDS} s" "$2" "$3"
  REPORT_TIMEOUTS+=("$1")
}

report::verdict() {
  if ((REPORT_COUNTS[failure])); then
    printf 'failure'
  elif ((REPORT_COUNTS[warning])); then
    printf 'warning'
  else
    printf 'ok'
  fi
}

report::width() {
  local text width="$1"
  for text in "${@:2}"; do
    ((${#text} <= width)) || width="${#text}"
  done
  printf '%d' "${width}"
}

report::table() {
  local -r name="$(report::width 5 "${REPORT_NAMES[@]}")" found="$(report::width 5 "${REPORT_FOUND[@]}")" wanted="$(report::width 6 "${REPORT_WANTED[@]}")"
  local -r form="%-7s  %-${name}s  %-${found}s  %-${wanted}s  %s"
  local index line
  local -A shown=([ok]="ok" [warning]="WARNING" [failure]="FAILURE" [skipped]="-")
  printf '%s\n' "$1"
  # shellcheck disable=SC2059 # the widths vary
  printf "${form}\n" VERDICT CHECK FOUND WANTED "WHAT TO DO"
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    # shellcheck disable=SC2059
    printf -v line "${form}" "${shown[${REPORT_VERDICTS[index]}]}" "${REPORT_NAMES[index]}" \
      "${REPORT_FOUND[index]}" "${REPORT_WANTED[index]}" "${REPORT_ACTIONS[index]}"
    printf '%s\n' "${line%"${line##*[![:space:]]}"}"
  done
  printf '%s: %s ok, %s warnings, %s failures, %s not checked\n' "$(report::verdict)" \
    "${REPORT_COUNTS[ok]}" "${REPORT_COUNTS[warning]}" "${REPORT_COUNTS[failure]}" "${REPORT_COUNTS[skipped]}"
}

report::quote() {
  local text="$1"
  text="${text//\\/\\\\}"
  text="${text//\"/\\\"}"
  text="${text//$'\n'/\\n}"
  text="${text//$'\r'/\\r}"
  text="${text//$'\t'/\\t}"
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

report::json() {
  local index separator=""
  printf '{"schema": 1, "scan": %s, "host": %s, "verdict": %s,\n "counts": {"ok": %s, "warning": %s, "failure": %s, "skipped": %s},\n "lines": [' \
    "$(report::quote "$1")" "$(report::quote "${HOSTNAME:-unknown}")" "$(report::quote "$(report::verdict)")" \
    "${REPORT_COUNTS[ok]}" "${REPORT_COUNTS[warning]}" "${REPORT_COUNTS[failure]}" "${REPORT_COUNTS[skipped]}"
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    printf '%s\n  {"name": %s, "verdict": %s, "found": %s, "wanted": %s, "action": %s}' "${separator}" \
      "$(report::quote "${REPORT_NAMES[index]}")" "$(report::quote "${REPORT_VERDICTS[index]}")" \
      "$(report::quote "${REPORT_FOUND[index]}")" "$(report::quote "${REPORT_WANTED[index]}")" "$(report::quote "${REPORT_ACTIONS[index]}")"
    separator=","
  done
  printf '\n ]}\n'
}

# show STYLE SCAN TITLE: print the report as a table or as JSON; exit with 0 ok, 1 warnings, 2 failures.
scan::show() {
  if [[ "$1" == json ]]; then
    report::json "$2"
  else
    report::table "$3"
  fi
  ((REPORT_COUNTS[failure] == 0)) || exit 2
  ((REPORT_COUNTS[warning] == 0)) || exit 1
  exit 0
}

# --- versions, and minimums.json: read with jq on nodes, with Python in images without jq.

# of TEXT: the first version in it (535.54.03 in "Driver 535.54.03-ubuntu", 25.11.8 in "slurm 25.11.8"); nothing without one.
versions::of() {
  [[ "$1" =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s' "${BASH_REMATCH[0]}"
  return 0
}

# at_least FOUND WANTED: compares number by number, so 1.22.0 is newer than 1.8.1 and 535.104.05 newer than 535.54.03. A missing number is 0.
versions::at_least() {
  local -a found required
  local index
  IFS=. read -r -a found <<<"$1"
  IFS=. read -r -a required <<<"$2"
  for ((index = 0; index < ${#required[@]}; index++)); do
    # 10# because 08 is not a valid octal number.
    if ((10#${found[index]:-0} != 10#${required[index]})); then
      ((10#${found[index]:-0} > 10#${required[index]}))
      return
    fi
  done
}

declare -A MINIMUMS=()

# load: all values by their path ("components.cuda.minimum").
minimums::load() {
  local lines path value
  if command -v jq >/dev/null; then
    lines="$(jq -r 'paths(scalars) as $path | "\($path | join("."))=\(getpath($path))"' "${SCAN_MINIMUMS}")" || return 1
  else
    lines="$(python3 -c '
import json, sys

def show(value, path):
    if isinstance(value, dict):
        for key in value:
            show(value[key], [*path, key])
    elif value is not None:
        print(".".join(path), value, sep="=")

show(json.load(open(sys.argv[1])), [])
' "${SCAN_MINIMUMS}")" || return 1
  fi
  while IFS="=" read -r path value; do
    MINIMUMS["${path}"]="${value}"
  done <<<"${lines}"
  [[ "${MINIMUMS[schema]:-}" == 1 ]]
}

minimums::get() {
  printf '%s' "${MINIMUMS["$1"]:-}"
}

# readable: load the file; if it cannot be read, report that and return 1.
minimums::readable() {
  minimums::load 2>/dev/null && return 0
  report::add minimums failure "unreadable: ${SCAN_MINIMUMS}" "jq or python3, and a complete file" \
    "Install jq or python3 in the image; give the file with --minimums."
  return 1
}

# compare NAME TEXT: report the version in TEXT. Below NAME's minimum is a failure, below the recommended version a warning.
minimums::compare() {
  local -r name="$1" text="$2"
  local -r minimum="$(minimums::get "components.${name}.minimum")" recommended="$(minimums::get "components.${name}.recommended")"
  local found verdict=ok
  found="$(versions::of "${text}")"
  if [[ -z "${found}" ]] || ! versions::at_least "${found}" "${minimum}"; then
    verdict=failure
  elif [[ -n "${recommended}" ]] && ! versions::at_least "${found}" "${recommended}"; then
    verdict=warning
  fi
  report::add "${name}" "${verdict}" "${found:-${text:-not found}}" "${minimum} or later${recommended:+, better ${recommended}}" \
    "$(minimums::get "components.${name}.action")"
}

minimums::compare_output() {
  scan::run "${@:2}"
  ((STATUS == 0)) || ANSWER="${ANSWER%%$'\n'*}"
  minimums::compare "$1" "${ANSWER}"
}
