#!/usr/bin/env bash
# The folders for jobs and users: common ones, those of each model, one for tests on each file system, whose root belongs to root, and in the folder
# for results those that no other user may make first: for reports of bad nodes, which the health check counts, for checks and for validations.
# Mode 775, owned by the cluster's user. Only the head node creates them.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

folders::main() {
  local user kind mount path paths
  user="$(settings::get .cluster.user)"
  id -u "${user}" >/dev/null 2>&1 || log::fail "the cluster's user '${user}' does not exist on this node"
  # Each folder with the mount that is its longest prefix. One call of jq for all: jq 1.6 needs 20 to 40 ms to start.
  # shellcheck disable=SC2016 # the variables are jq's
  paths="$(settings::get '[.mounts[].path] as $mounts
    | def line($kind): . as $path | [$mounts[] | select(. as $mount | $path | startswith($mount + "/"))] | "\($kind)\t\($path)\t\(max_by(length) // "")";
    (.folders[], (.folders.results | values + ("/bad-nodes", "/checks", "/validation")) | values | line("common")),
    (.models[].folders[] | values | line("model"))')"
  while IFS=$'\t' read -r kind path mount; do
    [[ -n "${path}" ]] || continue
    [[ -n "${mount}" ]] || log::fail "the folder ${path} is on none of the environment's file systems"
    local -a make=(files::user_folder "${TRAINYARD_ROOT}${mount}" "${path#"${mount}"/}" 0775 "${user}")
    if [[ "${kind}" == model ]]; then
      # A team may replace what is in its model's folder, which must not fail the head node.
      (export TRAINYARD_REASON="" && "${make[@]}") || log::warn "the model's folder ${path} cannot be used, the reason is above"
    else
      "${make[@]}"
    fi
  done <<<"${paths}"
  while read -r mount; do
    [[ -z "${mount}" || "${mount}" == /home ]] || files::user_folder "${TRAINYARD_ROOT}${mount}" .tests 0775 "${user}"
  done <<<"$(settings::get '.mounts[].path')"
}

folders::main
