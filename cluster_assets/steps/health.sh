#!/usr/bin/env bash
# The last step of a compute node. An unhealthy node is set DOWN before slurmd starts, so that Slurm runs its job elsewhere; then the
# bootstrap fails, so that ParallelCluster replaces the instance. Later slurmd runs the same program every few minutes.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

health::main() {
  local failures
  failures="$(bash "${TRAINYARD_LIB}/../scans/node-health.sh" --boot)" ||
    log::fail "this node is unhealthy: ${failures:-the health check itself failed}. Jobs go elsewhere and ParallelCluster replaces the node."
  log::info "healthy"
}

health::main
