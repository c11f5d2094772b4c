# shellcheck shell=bash
# minimums.json: read with jq on nodes, with Python in images that have no jq. Needs report.sh and versions.sh.

# get PATH...: the value under these keys; nothing for null.
minimums::get() {
  if command -v jq >/dev/null; then
    # shellcheck disable=SC2016 # $ARGS is jq's
    jq -r 'getpath($ARGS.positional) | select(. != null)' "${SCAN_MINIMUMS}" --args "$@"
  elif command -v python3 >/dev/null; then
    python3 -c '
import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    value = value.get(key) if value is not None else None
if value is not None:
    print(value)
' "${SCAN_MINIMUMS}" "$@"
  else
    return 1
  fi
}

# readable: whether the file can be read here; if not, says so in the report.
minimums::readable() {
  minimums::get schema >/dev/null 2>&1 && return 0
  report::add minimums failure "unreadable: ${SCAN_MINIMUMS}" "jq or python3, and a whole file" \
    "Put jq or python3 into the image; name the file with --minimums."
  return 1
}

# compare NAME COMPONENT TEXT: a line for the version that TEXT holds. Below the minimum is a failure, below the recommended a warning.
minimums::compare() {
  local -r name="$1" component="$2" text="$3"
  local found minimum recommended action wanted
  found="$(versions::of "${text}")"
  minimum="$(minimums::get components "${component}" minimum)"
  recommended="$(minimums::get components "${component}" recommended)"
  action="$(minimums::get components "${component}" action)"
  wanted="${minimum} or later${recommended:+, better ${recommended}}"
  if [[ -z "${found}" ]]; then
    report::add "${name}" failure "${text:-not found}" "${wanted}" "${action}"
  elif ! versions::at_least "${found}" "${minimum}"; then
    report::add "${name}" failure "${found}" "${wanted}" "${action}"
  elif [[ -n "${recommended}" ]] && ! versions::at_least "${found}" "${recommended}"; then
    report::add "${name}" warning "${found}" "${wanted}" "${action}"
  else
    report::add "${name}" ok "${found}" "${wanted}"
  fi
}
