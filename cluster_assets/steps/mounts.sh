#!/usr/bin/env bash
# Waits until all file systems of the environment are mounted, at most TRAINYARD_MOUNT_SECONDS in total.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

# Lustre is mounted at its first use (noauto,x-systemd.automount: aws-parallelcluster-cookbook f75d84c, lustre/partial/_mount_unmount.rb).
# Until then the path is a mount point of type autofs. statfs is a use. It hangs if the file system's servers do not answer.
mounts::is_mounted() {
  local type
  type="$(timeout 15 stat --file-system --format=%T "$1" 2>/dev/null)" && [[ "${type}" != autofs ]] && timeout 15 mountpoint -q "$1"
}

mounts::missing() {
  local path
  for path in "$@"; do
    mounts::is_mounted "${TRAINYARD_ROOT}${path}" || printf '%s\n' "${path}"
  done
}

mounts::main() {
  base::need 1 mountpoint stat timeout
  local paths missing
  local -r deadline=$((SECONDS + TRAINYARD_MOUNT_SECONDS))
  paths="$(settings::get '.mounts[].path')"
  mapfile -t missing < <(printf '%s' "${paths}")
  while ((${#missing[@]})); do
    mapfile -t missing < <(mounts::missing "${missing[@]}")
    ((${#missing[@]})) || break
    if ((SECONDS >= deadline)); then
      log::fail "not mounted after ${TRAINYARD_MOUNT_SECONDS} s: ${missing[*]}. Check that the file system is AVAILABLE and that its \
security group lets this node in (Lustre: TCP 988 and 1018-1023; OpenZFS: TCP and UDP 111, 2049, 20001-20003)."
    fi
    log::info "waiting for ${missing[*]}"
    sleep "${TRAINYARD_MOUNT_PAUSE}"
  done
  log::info "mounted: ${paths//$'\n'/ }"
}

mounts::main
