# shellcheck shell=bash
# minimums.json: read with jq on nodes, with Python in images that have no jq. Needs report.sh and versions.sh.

declare -A MINIMUMS=()

# load: all values by their path ("components.cuda.minimum"), at once.
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

# get PATH: one value; nothing for null.
minimums::get() {
  printf '%s' "${MINIMUMS["$1"]:-}"
}

# readable: whether the file can be read here; if not, says so in the report.
minimums::readable() {
  minimums::load 2>/dev/null && return 0
  report::add minimums failure "unreadable: ${SCAN_MINIMUMS}" "jq or python3, and a whole file" \
    "Put jq or python3 into the image; name the file with --minimums."
  return 1
}

# compare NAME COMPONENT TEXT: a line for the version that TEXT holds. Below the minimum is a failure, below the recommended a warning.
minimums::compare() {
  local -r name="$1" component="$2" text="$3"
  local -r minimum="${MINIMUMS["components.${component}.minimum"]}" action="${MINIMUMS["components.${component}.action"]}"
  local -r recommended="${MINIMUMS["components.${component}.recommended"]:-}"
  local found wanted
  found="$(versions::of "${text}")"
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
