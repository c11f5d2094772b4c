# Sourced by the steps of monitoring, after common.sh. Monitoring is never the reason that a bootstrap fails.

# Of a whole step, far below the limit of ParallelCluster for the bootstrap of a compute node (1800 s). Overridable for tests.
readonly MONITORING_SECONDS="${TRAINYARD_MONITORING_SECONDS:-300}"

# part WARNING PART ARGUMENT...: run a part of this script as a process; its failure, or no end within the step's time, is a warning.
monitoring::part() {
  local -r left=$((MONITORING_SECONDS - SECONDS))
  timeout --kill-after=5 "$((left > 1 ? left : 1))" bash "$0" "${@:2}" || log::warn "$1"
}

# start UNIT: enable and start a unit that is not; restart it if this part has written a file.
monitoring::start() {
  ((FILES_WRITTEN)) || ! systemctl is-active --quiet "$1" || ! systemctl is-enabled --quiet "$1" || return 0
  systemctl daemon-reload && systemctl enable "$1" && systemctl restart "$1"
}
