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

# metrics OK: the result for the head node's node_exporter, where steps/metrics.sh has made the folder.
idle_nodes::metrics() {
  local -r file="${TRAINYARD_ROOT:-}/var/lib/trainyard/metrics/idle-nodes"
  [[ -d "${file%/*}" ]] || return 0
  printf '# TYPE trainyard_node_check_%s gauge\ntrainyard_node_check_%s{check="idle-nodes"} %s\n' \
    ok ok "$1" time_seconds time_seconds "$(date +%s)" >"${file}.tmp" && mv -f "${file}.tmp" "${file}.prom"
}

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
  idle_nodes::metrics "$([[ -z "${bad}" ]] && echo 1 || echo 0)" 2>/dev/null || true
  [[ -z "${bad}" ]] || log::fail "bad nodes: ${bad}"
}

idle_nodes::main
