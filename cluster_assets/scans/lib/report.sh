# shellcheck shell=bash
# The lines of a scan: collected, then shown as a table or as JSON (report.schema.json). Needs nothing but bash, as it runs in any image.

REPORT_NAMES=() REPORT_VERDICTS=() REPORT_FOUND=() REPORT_WANTED=() REPORT_ACTIONS=()
# Names of lines whose probe did not answer in time: a busy node does that too, once.
REPORT_NO_ANSWER=()

# add NAME VERDICT FOUND WANTED [ACTION]: VERDICT is ok, warning, failure or skipped.
report::add() {
  REPORT_NAMES+=("$1")
  REPORT_VERDICTS+=("$2")
  REPORT_FOUND+=("${3:-nothing}")
  REPORT_WANTED+=("$4")
  REPORT_ACTIONS+=("${5:-}")
}

# no_answer NAME SECONDS WANTED ACTION
report::no_answer() {
  report::add "$1" failure "no answer in $2 s" "$3" "$4"
  REPORT_NO_ANSWER+=("$1")
}

report::count() {
  local verdict number=0
  for verdict in "${REPORT_VERDICTS[@]}"; do
    [[ "${verdict}" != "$1" ]] || number=$((number + 1))
  done
  printf '%d' "${number}"
}

report::verdict() {
  local verdict
  for verdict in failure warning; do
    if (($(report::count "${verdict}"))); then
      printf '%s' "${verdict}"
      return 0
    fi
  done
  printf 'ok'
}

# exit_code: 0 ok, 1 warnings, 2 failures.
report::exit_code() {
  case "$(report::verdict)" in
    ok) printf 0 ;;
    warning) printf 1 ;;
    *) printf 2 ;;
  esac
}

report::width() {
  local -r least="$1"
  shift
  local text width="${least}"
  for text in "$@"; do
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
  # shellcheck disable=SC2059 # the widths are the lines' own
  printf "${form}\n" VERDICT CHECK FOUND WANTED "WHAT TO DO"
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    # shellcheck disable=SC2059
    printf -v line "${form}" "${shown[${REPORT_VERDICTS[index]}]}" "${REPORT_NAMES[index]}" \
      "${REPORT_FOUND[index]}" "${REPORT_WANTED[index]}" "${REPORT_ACTIONS[index]}"
    printf '%s\n' "${line%"${line##*[![:space:]]}"}"
  done
  printf '%s: %s ok, %s warnings, %s failures, %s not checked\n' \
    "$(report::verdict)" "$(report::count ok)" "$(report::count warning)" "$(report::count failure)" "$(report::count skipped)"
}

# quote TEXT: as a JSON string.
report::quote() {
  local text="$1"
  text="${text//\\/\\\\}"
  text="${text//\"/\\\"}"
  text="${text//$'\n'/\\n}"
  text="${text//$'\r'/\\r}"
  text="${text//$'\t'/\\t}"
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

# json SCAN
report::json() {
  local index separator=""
  printf '{"schema": 1, "scan": %s, "host": %s, "verdict": %s,\n "counts": {"ok": %s, "warning": %s, "failure": %s, "skipped": %s},\n "lines": [' \
    "$(report::quote "$1")" "$(report::quote "${HOSTNAME:-unknown}")" "$(report::quote "$(report::verdict)")" \
    "$(report::count ok)" "$(report::count warning)" "$(report::count failure)" "$(report::count skipped)"
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    printf '%s\n  {"name": %s, "verdict": %s, "found": %s, "wanted": %s, "action": %s}' "${separator}" \
      "$(report::quote "${REPORT_NAMES[index]}")" "$(report::quote "${REPORT_VERDICTS[index]}")" \
      "$(report::quote "${REPORT_FOUND[index]}")" "$(report::quote "${REPORT_WANTED[index]}")" "$(report::quote "${REPORT_ACTIONS[index]}")"
    separator=","
  done
  printf '\n ]}\n'
}
