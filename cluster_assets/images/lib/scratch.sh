# shellcheck shell=bash disable=SC2034
# A folder on this node's fastest disk for one import, and what killed imports left there.

readonly SCRATCH_PREFIX=trainyard-import

# base: where Enroot keeps its temporary files, which on our nodes is the local NVMe where there is some; else /scratch, else /var/tmp.
# Never /tmp by default: it may be memory.
scratch::base() {
  local configured
  configured="${IMPORT_SCRATCH:-$(credentials::enroot_value ENROOT_TEMP_PATH)}"
  if [[ -n "${configured}" && ("${configured}" != /tmp || -n "${IMPORT_SCRATCH}") ]]; then
    printf '%s' "${configured}"
  elif mountpoint -q /scratch && [[ -w /scratch ]]; then
    printf /scratch
  else
    printf /var/tmp
  fi
}

# make: sets IMPORT_WORK. Its lock says that it is in use; the name that the cleaning looks for comes after the lock.
scratch::make() {
  local base made
  base="$(scratch::base)"
  [[ -d "${base}" && -w "${base}" ]] ||
    log::fail 73 "the scratch folder ${base} is missing, or not yours to write: set IMPORT_SCRATCH to a folder on a local disk with room for the unpacked image"
  scratch::clean "${base}"
  made="$(mktemp -d "${base}/.${SCRATCH_PREFIX}.XXXXXXXX")" || log::fail 73 "cannot make a folder in ${base}: it is full or read-only"
  exec 8>"${made}/lock"
  flock --nonblock 8
  IMPORT_WORK="${base}/${made##*/.}"
  mv -T "${made}" "${IMPORT_WORK}"
}

# clean BASE: removes this user's folders whose import has ended without removing them.
scratch::clean() {
  local folder
  for folder in "$1/${SCRATCH_PREFIX}".*; do
    [[ -O "${folder}" && -f "${folder}/lock" && ! -L "${folder}" ]] || continue
    if (exec 8>"${folder}/lock" && flock --nonblock 8); then
      log::info "removing ${folder}, left by an import that was cut short"
      scratch::remove "${folder}"
    fi
  done
}

# remove FOLDER: layers may hold folders without the right to write.
scratch::remove() {
  chmod -R u+rwX "$1" 2>/dev/null || true
  rm -rf -- "$1" || log::warn "could not remove all of $1"
}
