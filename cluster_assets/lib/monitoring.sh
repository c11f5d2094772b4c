# Sourced by the steps of monitoring, after common.sh. Monitoring is never the reason that a bootstrap fails.

# Of a whole step, far below the limit of ParallelCluster for the bootstrap of a compute node (1800 s). Overridable for tests.
readonly MONITORING_SECONDS="${TRAINYARD_MONITORING_SECONDS:-300}"

# part WARNING PART ARGUMENT...: run a part of this script as a process; its failure, or no end within the step's time, is a warning.
monitoring::part() {
  local -r left=$((MONITORING_SECONDS - SECONDS))
  timeout --kill-after=5 "$((left > 1 ? left : 1))" bash "$0" "${@:2}" || log::warn "$1"
}

readonly AGENT="${TRAINYARD_ROOT}/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"

# log_group: print the cluster's log group, for the CloudWatch agent; returns 1 without one or without the agent.
monitoring::log_group() {
  local -r group="$(settings::node_value log_group_name)"
  if [[ ! -x "${AGENT}" || -z "${group}" || "${group}" == NONE ]]; then
    log::info "no CloudWatch agent on this node, or the cluster has no log group: $1 are not sent to CloudWatch"
    return 1
  fi
  printf '%s' "${group}"
}

# add_to_agent FILE <CONFIGURATION: append it to ParallelCluster's.
monitoring::add_to_agent() {
  FILES_WRITTEN=0
  files::write "$1" 0644
  ((FILES_WRITTEN == 0)) || "${AGENT}" -a append-config -m ec2 -c "file:$1" -s >/dev/null || {
    rm -f "$1"
    log::fail "the CloudWatch agent refused our configuration: see /opt/aws/amazon-cloudwatch-agent/logs"
  }
}

monitoring::take_from_agent() {
  [[ -e "$1" ]] || return 0
  [[ ! -x "${AGENT}" ]] || "${AGENT}" -a remove-config -m ec2 -c "file:$1" -s >/dev/null || true
  rm -f "$1"
}
