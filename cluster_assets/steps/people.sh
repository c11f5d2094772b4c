#!/usr/bin/env bash
# Users, groups and shares of cluster/people.json, if the environment has people or teams, and a timer that applies later changes. A conflict with
# a user whom this node has already is a warning: it must not be the reason that a node fails.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

people::main() {
  if [[ "$(settings::get .people)" != true ]]; then
    units::stop trainyard-people.timer || return 0
    # All nodes mount the head node's /opt/slurm.
    [[ "$(settings::node_value node_type)" != HeadNode ]] || rm -f "${TRAINYARD_ROOT}/opt/slurm/etc/scripts/prolog.d/15_trainyard_people"
    log::info "the environment has no people any more: users stay as they are"
    return 0
  fi
  # Without its reason, which would be the step's.
  TRAINYARD_REASON="" bash "${TRAINYARD_LIB}/../people/apply.sh" apply || log::warn "users and shares are not as the people file says"
}

people::main
