#!/usr/bin/env bash
# The folders for jobs and users: common ones, those of each model, and one for tests on each file system, whose root belongs to root.
# Mode 775, owned by the cluster's user. Only the head node creates them.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

folders::main() {
  local user mount path paths
  user="$(settings::get .cluster.user)"
  id -u "${user}" >/dev/null 2>&1 || log::fail "the cluster's user '${user}' does not exist on this node"
  paths="$(settings::get '.folders[], .models[].folders[]')"
  while read -r path; do
    [[ -n "${path}" ]] || continue
    # The longest prefix.
    mount="$(settings::get '[.mounts[].path | . as $mount | select($path | startswith($mount + "/"))] | max_by(length)' --arg path "${path}")"
    [[ -n "${mount}" ]] || log::fail "the folder ${path} is on none of the environment's file systems"
    files::user_folder "${TRAINYARD_ROOT}${mount}" "${path#"${mount}"/}" 0775 "${user}"
  done <<<"${paths}"
  while read -r mount; do
    [[ -z "${mount}" || "${mount}" == /home ]] || files::user_folder "${TRAINYARD_ROOT}${mount}" .tests 0775 "${user}"
  done <<<"$(settings::get '.mounts[].path')"
}

folders::main
