# shellcheck shell=bash
# Lines with the time in UTC, to stderr, so that a function whose output is taken may log too; the runner copies them to the log.

log::info() {
  printf '%s trainyard: %s\n' "$(date -u +%FT%TZ)" "$*" >&2
}

log::warn() {
  log::info "WARNING: $*"
}

# fail REASON: ends the step. The reason is one sentence for the person who reads the cluster's failure message.
log::fail() {
  log::info "FAILED: $*"
  if [[ -n "${TRAINYARD_REASON:-}" ]]; then
    printf '%s\n' "$*" >"${TRAINYARD_REASON}"
  else
    printf '%s\n' "$*" >&2
  fi
  exit 1
}
