#!/usr/bin/env bash
# idle-nodes.sh: what trainyard-idle-nodes.timer runs on the head node, as root. Checks the nodes that are idle and up; fails, with their
# names in the journal, if some are bad, and drains these if the environment file has validation.on_failure: drain.
set -euo pipefail

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
LOG_NAME=idle-nodes

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
. "${HERE}/../lib/base.sh"
. "${HERE}/../lib/settings.sh"

idle_nodes::main() {
  local answer folder bad
  answer="$(bash "${HERE}/request.sh" idle)" || log::fail "the nodes were not checked: the reason is above"
  jq -r '.jobs[] | "\(.check) on \(.nodes | length) idle nodes: \(.state), see \(.folder)"' <<<"${answer}"
  bad="$(jq -r '.jobs[] | .check as $check | .bad | to_entries[] | "\(.key) (\($check) \(.value))"' <<<"${answer}" | paste -sd ,)"
  if [[ -n "${bad}" && "$(settings::get .validation.on_failure)" == drain ]]; then
    while read -r folder; do
      bash "${HERE}/request.sh" drain "${folder}" || log::warn "nothing of ${folder} was drained"
    done < <(jq -r '.jobs[] | select(.bad != {}) | .folder' <<<"${answer}")
  fi
  [[ -z "${bad}" ]] || log::fail "bad nodes: ${bad}"
}

idle_nodes::main
