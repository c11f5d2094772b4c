# shellcheck shell=bash
# Everything that looks at a node, and what the node is. Needs scan.sh.

# shellcheck source=cluster_assets/lib/base.sh
. "${SCANS}/../lib/base.sh"
# shellcheck source=cluster_assets/lib/settings.sh
. "${SCANS}/../lib/settings.sh"
# shellcheck source=cluster_assets/scans/lib/instance.sh
. "${SCANS}/lib/instance.sh"
# shellcheck source=cluster_assets/scans/lib/gpus.sh
. "${SCANS}/lib/gpus.sh"
# shellcheck source=cluster_assets/scans/lib/fabric.sh
. "${SCANS}/lib/fabric.sh"
# shellcheck source=cluster_assets/scans/lib/disks.sh
. "${SCANS}/lib/disks.sh"
# shellcheck source=cluster_assets/scans/lib/software.sh
. "${SCANS}/lib/software.sh"

# identify ROLE: loads what this node must have, and says so in the report where that cannot be told.
node::identify() {
  INSTANCE_TYPE="" INSTANCE_KNOWN=no
  if ! command -v jq >/dev/null; then
    report::add settings failure "no jq" "${TRAINYARD_SETTINGS}" "Install jq: official ParallelCluster AMIs have it."
  elif ! jq -e '.schema == 1' "${TRAINYARD_SETTINGS}" >/dev/null 2>&1; then
    report::add settings failure "no readable ${TRAINYARD_SETTINGS}" "written by the bootstrap" \
      "This is no node of a Trainyard cluster, or its bootstrap failed: see /var/log/trainyard/bootstrap.log."
  else
    report::add settings ok "$(jq -r .environment "${TRAINYARD_SETTINGS}")" "written by the bootstrap"
  fi
  instance::load
  [[ "$1" == compute ]] || return 0
  if [[ "${INSTANCE_KNOWN}" == yes ]]; then
    report::add instance-type ok "${INSTANCE_TYPE}" "one that settings.json knows"
  else
    report::add instance-type warning "${INSTANCE_TYPE:-unknown}" "one that settings.json knows" \
      "Counts of GPUs, EFA interfaces and disks are not checked; name it with --instance-type."
  fi
}
