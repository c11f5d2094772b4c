#!/bin/bash
# Part of a Systems Manager document (head_node_documents.py): sets Slurm's partitions DOWN, so that jobs wait, or UP
# again. Running jobs go on. Prints the names of the partitions that it changed. Only partitions that `stop` has set
# DOWN are set UP: one that an administrator or ParallelCluster has taken out of service stays as it is.
set -euo pipefail

readonly ACTION='{{ Action }}'
readonly SCONTROL=/opt/slurm/bin/scontrol
readonly STATE=/var/lib/trainyard/new-jobs-stopped

budget::in_state() {
  "${SCONTROL}" show partition --oneliner | sed -n "s/^PartitionName=\([^ ]*\) .* State=$1 .*/\1/p"
}

budget::set_state() {
  "${SCONTROL}" update PartitionName="$1" State="$2"
}

mkdir -p "${STATE%/*}"
touch "${STATE}"
changed=()
# Not in the loops' heads: there a failure of scontrol would end nothing.
up="$(budget::in_state UP)"
down="$(budget::in_state DOWN)"
if [[ ${ACTION} == stop ]]; then
  for partition in ${up}; do
    grep -qxF "${partition}" "${STATE}" || echo "${partition}" >>"${STATE}"
    budget::set_state "${partition}" DOWN
    changed+=("${partition}")
  done
else
  for partition in ${down}; do
    if grep -qxF "${partition}" "${STATE}"; then
      budget::set_state "${partition}" UP
      changed+=("${partition}")
    fi
  done
  : >"${STATE}"
fi
(
  IFS=,
  echo "${changed[*]:-}"
)
