# Versions, and minimums.json: read with jq on nodes, with Python in images without jq. Needs scan.sh.

# of TEXT: the first version in it (535.54.03 in "Driver 535.54.03-ubuntu", 25.11.8 in "slurm 25.11.8"); nothing without one.
versions::of() {
  [[ "$1" =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s' "${BASH_REMATCH[0]}"
  return 0
}

# at_least FOUND WANTED: compares number by number, so 1.22.0 is newer than 1.8.1 and 535.104.05 newer than 535.54.03.
versions::at_least() {
  printf '%s\n' "$2" "$1" | sort --version-sort --check=quiet
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

# get PATH: one value; nothing for null.
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

# compare_output NAME COMMAND...: the version that COMMAND prints.
minimums::compare_output() {
  scan::run "${@:2}"
  ((STATUS == 0)) || ANSWER="${ANSWER%%$'\n'*}"
  minimums::compare "$1" "${ANSWER}"
}
