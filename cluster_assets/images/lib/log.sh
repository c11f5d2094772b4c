# shellcheck shell=bash
# Lines with the time in UTC to stderr; stdout is for results.

log::info() {
  printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2
}

log::warn() {
  log::info "WARNING: $*"
}

# fail CODE TEXT...: ends the program. The text says what was found, and what to do.
log::fail() {
  local -r code="$1"
  shift
  log::info "ERROR: $*"
  exit "${code}"
}

# size BYTES: for people, in binary units.
log::size() {
  if (($1 >= 1 << 30)); then
    printf '%d.%d GiB' $(($1 >> 30)) $((($1 % (1 << 30)) * 10 >> 30))
  elif (($1 >= 1 << 20)); then
    printf '%d.%d MiB' $(($1 >> 20)) $((($1 % (1 << 20)) * 10 >> 20))
  else
    printf '%d bytes' "$1"
  fi
}
