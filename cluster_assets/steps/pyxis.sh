#!/usr/bin/env bash
# Enables Pyxis, on the head node only: all nodes read the shared configuration, and nodes that wrote it concurrently broke every job (the
# reason why ParallelCluster ships it disabled since 3.11.1). slurmctld restarts only if something changed.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/pyxis.sh
. "${TRAINYARD_LIB}/pyxis.sh"

pyxis::main() {
  local -r etc="${TRAINYARD_ROOT}/opt/slurm/etc"
  local configuration
  base::need 1 systemctl
  pyxis::check_plugin
  [[ -d "${etc}" ]] || log::fail "${etc} is missing: this is not a ParallelCluster head node"
  # container_scope=job: a container with a name ends with its job (Pyxis 0.24.0, config.c and pyxis_slurmd.c). Otherwise it stays on its
  # node and fills the disk.
  configuration="$(sed '/container_scope=/! s/^\(required\|optional\) .*/& container_scope=job/' "${PYXIS_EXAMPLES}/pyxis/pyxis.conf")"
  # The plugin's own file first, then the file that includes it.
  files::write "${etc}/plugstack.conf.d/pyxis.conf" 0644 <<<"${configuration}"
  files::write "${etc}/plugstack.conf" 0644 <"${PYXIS_EXAMPLES}/spank/plugstack.conf"
  if ((FILES_WRITTEN)); then
    systemctl try-restart slurmctld || log::fail "slurmctld did not restart with Pyxis enabled: see /var/log/slurmctld.log"
  fi
}

pyxis::main
