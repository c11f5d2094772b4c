# Sourced by every script but entry.sh: log lines, errors, required commands, Python.

LOG_NAME="${LOG_NAME:-trainyard}"

# Log lines carry the UTC time and go to stderr: stdout is for results.
log::info() {
  TZ=UTC printf '%(%FT%TZ)T %s: %s\n' -1 "${LOG_NAME}" "$*" >&2
}

log::warn() {
  log::info "WARNING: $*"
}

# exit CODE REASON...: log the reason and exit. run.sh reads the reason of a bootstrap step from TRAINYARD_REASON.
log::exit() {
  local -r code="$1"
  shift
  log::info "FAILED: $*"
  [[ -z "${TRAINYARD_REASON:-}" ]] || printf '%s\n' "$*" >"${TRAINYARD_REASON}"
  exit "${code}"
}

log::fail() {
  log::exit 1 "$@"
}

# need CODE COMMAND...: exit with CODE and name the commands that are missing.
base::need() {
  local -r code="$1"
  shift
  local name missing=()
  for name in "$@"; do
    command -v "${name}" >/dev/null || missing+=("${name}")
  done
  ((${#missing[@]} == 0)) ||
    log::exit "${code}" "missing on $(hostname): ${missing[*]}. Run this on a node of the cluster with an official ParallelCluster AMI, or add them to your AMI."
}

base::python() {
  local name
  for name in python3 python3.12 python3.11 python3.9; do
    if command -v "${name}" >/dev/null && "${name}" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
      command -v "${name}"
      return 0
    fi
  done
  log::fail "no Python 3.9 or later on $(hostname): install python3.11, or use an AMI that has one"
}
