#!/usr/bin/env bash
# Enroot on this node: its cache, data and temporary files on the local NVMe where the node has some, on the root volume otherwise.
# Each folder is sticky and open to all, as /tmp is; Enroot keeps each user's things in a folder of that user's own. With `people`, Slurm's prolog makes
# these, and closes the folder around them.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/pyxis.sh
. "${TRAINYARD_LIB}/pyxis.sh"

enroot::has_local_nvme() {
  local models
  models="$(lsblk --nodeps --noheadings --output MODEL)"
  [[ "${models}" == *"Instance Storage"* ]]
}

# The folder for Enroot's large files.
enroot::base() {
  local queue scratch
  queue="$(settings::queue)"
  scratch="$(settings::scratch "${queue}")"
  if [[ -z "${scratch}" ]] || ! enroot::has_local_nvme; then
    printf '/var/enroot'
  elif mountpoint -q "${TRAINYARD_ROOT}${scratch}"; then
    printf '%s/enroot' "${scratch}"
  else
    log::fail "the node has local NVMe, but ${scratch} is not mounted: see setup-ephemeral in the node's system log. Without scratch, images would fill the root volume"
  fi
}

enroot::main() {
  base::need 1 enroot lsblk mountpoint
  pyxis::check_plugin
  local base name
  base="$(enroot::base)"
  # Scratch is open to all.
  files::folder "${TRAINYARD_ROOT}${base}" 0755
  for name in cache data tmp; do
    files::folder "${TRAINYARD_ROOT}${base}/${name}" 1777
  done
  # /run is empty after a reboot and custom actions do not run again, so systemd creates the folders at each boot. Enroot never empties its
  # cache (NVIDIA/enroot#134): systemd removes layers that were fetched 14 days ago and not read since, and keeps the users' folders, which
  # with `people` only the prolog may make (tmpfiles.d(5): e). Local NVMe records no reads: ParallelCluster mounts it with noatime.
  files::write "${TRAINYARD_ROOT}/etc/tmpfiles.d/trainyard.conf" 0644 <<END
d /run/enroot 1777 root root -
d $(pyxis::runtime_path) 0755 root root -
e ${base}/cache/user-* - - - 14d
END
  files::folder "${TRAINYARD_ROOT}/run/enroot" 1777
  # As slurmd makes it (Pyxis 0.24.0): the users' folders in it are made by root.
  files::folder "${TRAINYARD_ROOT}$(pyxis::runtime_path)" 0755
  files::write "${TRAINYARD_ROOT}/etc/enroot/enroot.conf" 0644 <<END
# Written by Trainyard; do not edit.
ENROOT_RUNTIME_PATH /run/enroot/user-\$(id -u)
ENROOT_CACHE_PATH ${base}/cache/user-\$(id -u)
ENROOT_DATA_PATH ${base}/data/user-\$(id -u)
ENROOT_TEMP_PATH ${base}/tmp
END
  log::info "Enroot's files are under ${base}"
}

enroot::main
