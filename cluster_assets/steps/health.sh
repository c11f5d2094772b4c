#!/usr/bin/env bash
# The last step of a compute node, before its slurmd starts: what cannot do the work of its instance type takes no work. It is set
# down with the reason, so that Slurm runs its job elsewhere; then the bootstrap fails, so that ParallelCluster replaces the instance.
# Afterwards slurmd runs the same program every few minutes.
# shellcheck source=cluster_assets/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

health::main() {
  local failures
  # The link by which Slurm knows the program, so that what runs later is what was tried now.
  failures="$(bash "${TRAINYARD_LIB}/../scans/node-health.sh" --boot)" ||
    log::fail "this node cannot do its work: ${failures:-the health check itself failed}. Jobs go elsewhere and ParallelCluster replaces the node."
  log::info "healthy"
}

health::main
