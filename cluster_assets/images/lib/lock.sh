# shellcheck shell=bash
# One import of a name at a time, on all nodes together: flock on a file beside the image. Lustre mounted with `flock` (as ParallelCluster
# mounts it) and NFS carry such locks between nodes. The kernel lets go when the last process of an import has ended, and the file system when its node
# has died; so a free lock means that nothing of an import lives. The file is never removed: two could then lock two files of one name.

# take NAME: holds the lock until the program and all it started have ended.
lock::take() {
  local -r file="${IMPORT_FOLDER}/.$1.lock"
  local -r started="${SECONDS}"
  local options left status pause=0 problem="${IMPORT_WORK}/lock-problem"
  options="$(findmnt --noheadings --output OPTIONS --target "${IMPORT_FOLDER}" || true)"
  [[ ",${options}," != *,localflock,* ]] ||
    log::fail 78 "${IMPORT_FOLDER} is mounted with localflock, so two nodes could import $1 at once: mount it with flock"
  # Append, so that waiting does not wipe out who holds it. Others of the group may import the same name later.
  (umask 0113 && : >>"${file}") 2>/dev/null || true
  { exec 9>>"${file}"; } 2>/dev/null || log::fail 73 "cannot write ${file}: ask its owner ($(stat -c %U "${file}" 2>/dev/null || echo nobody)), or take another name"
  while true; do
    status=0
    flock --exclusive --wait "${pause}" --conflict-exit-code 75 9 2>"${problem}" || status=$?
    ((status != 0)) || break
    ((status == 75)) || log::fail 78 "${IMPORT_FOLDER} takes no locks ($(tail -n 1 "${problem}")): mount it with flock"
    left=$((started + IMPORT_LOCK_SECONDS - SECONDS))
    ((left > 0)) ||
      log::fail 75 "$1 is being imported by $(lock::holder "${file}"), for longer than the ${IMPORT_LOCK_SECONDS} s that IMPORT_LOCK_SECONDS allows. Look there; an import that hangs can be ended, and the next one cleans up after it."
    log::info "waiting: $1 is being imported by $(lock::holder "${file}")"
    pause=$((left < IMPORT_PROGRESS_SECONDS ? left : IMPORT_PROGRESS_SECONDS))
  done
  printf '%s on %s, process %s%s, since %s\n' "$(id -un)" "$(hostname)" "$$" "${SLURM_JOB_ID:+, job ${SLURM_JOB_ID}}" "$(date -u +%FT%TZ)" >"${file}"
}

lock::holder() {
  local holder=""
  read -r holder <"$1" 2>/dev/null || true
  printf '%s' "${holder:-somebody}"
}
