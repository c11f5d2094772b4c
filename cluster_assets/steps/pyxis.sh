#!/usr/bin/env bash
# Switches Pyxis on. On the head node alone: the configuration lies on the share that all nodes read, and nodes that wrote it in a race
# once broke every job (why ParallelCluster 3.11.1 ships it switched off). slurmctld restarts only if something changed.
# shellcheck source=cluster_assets/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=cluster_assets/lib/pyxis.sh
. "${TRAINYARD_LIB}/pyxis.sh"

pyxis::main() {
  local -r etc="${TRAINYARD_ROOT}/opt/slurm/etc"
  common::need systemctl
  pyxis::check_plugin
  [[ -d "${etc}" ]] || log::fail "${etc} is missing: this is no ParallelCluster head node"
  # The plugin's own file first, then the file that includes it.
  files::write "${etc}/plugstack.conf.d/pyxis.conf" 0644 <"${PYXIS_EXAMPLES}/pyxis/pyxis.conf"
  files::write "${etc}/plugstack.conf" 0644 <"${PYXIS_EXAMPLES}/spank/plugstack.conf"
  if ((FILES_WRITTEN)); then
    systemctl try-restart slurmctld || log::fail "slurmctld did not restart with Pyxis on: see /var/log/slurmctld.log"
  fi
}

pyxis::main
