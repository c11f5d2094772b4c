#!/usr/bin/env bash
# node-health.sh: Slurm's HealthCheckProgram, and a step of the bootstrap. An unhealthy node takes itself out of service, with the reason,
# before jobs fail on it.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib/scan.sh"
. "${SCANS}/lib/node.sh"

# Overridable.
HEALTH_STATE="${HEALTH_STATE:-${TRAINYARD_ROOT}/run/trainyard}"
HEALTH_SKIP="${HEALTH_SKIP:-${TRAINYARD_ROOT}/etc/trainyard/health.skip}"
HEALTH_LOG="${HEALTH_LOG:-${TRAINYARD_ROOT}/var/log/trainyard/health.log}"
HEALTH_REPORTS="${HEALTH_REPORTS:-3}"  # of training jobs
HEALTH_SECONDS="${HEALTH_SECONDS:-15}" # no check starts later, because slurmd kills a health check after 60 s; the longest takes 28 s
# Written by ParallelCluster before custom actions run (aws-parallelcluster-cookbook f75d84c, aws-parallelcluster-slurm/recipes/init.rb).
HEALTH_NODE_NAME="${HEALTH_NODE_NAME:-${TRAINYARD_ROOT}/etc/parallelcluster/slurm_plugin/slurm_nodename}"

health::usage() {
  cat <<END
usage: ${0##*/} [--boot | --report]

Compares GPUs, driver, fabric manager, EFA, scratch and file systems with the node's instance type.
Without an option, as Slurm runs it: a failure drains this node with a reason that 'sinfo -R' shows; running jobs continue. A check that
times out must do so twice in a row. A node that is already out of service keeps its reason. Nothing is put back into service:
ParallelCluster replaces a node that is drained and idle.
  --boot     before slurmd starts: a failure sets the node DOWN, so that Slurm runs its job elsewhere, and is printed
  --report   only prints the failures

Checks in ${HEALTH_SKIP} (names as scan-host-environment.sh prints them, one per line) are ignored.
Exit code: 0 healthy or taken out of service, 1 unhealthy (--boot and --report), 64 wrong arguments.
END
}

health::log() {
  mkdir -p "${HEALTH_LOG%/*}"
  printf '%s %s\n' "$(date -u +%FT%TZ)" "$1" >>"${HEALTH_LOG}"
  if [[ -z "${TRAINYARD_ROOT}" ]] && command -v logger >/dev/null; then
    logger -t trainyard -p user.err -- "$1" || true
  fi
}

# failures MODE: the report's failures as one line; timeouts only at boot, or if the last run timed out too.
health::failures() {
  local -r mode="$1" before="${HEALTH_STATE}/no-answer"
  local index name text="" timeouts=""
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    name="${REPORT_NAMES[index]}"
    [[ "${REPORT_VERDICTS[index]}" == failure ]] || continue
    ! grep -qsxF -- "${name}" "${HEALTH_SKIP}" || continue
    if [[ " ${REPORT_TIMEOUTS[*]} " == *" ${name} "* ]]; then
      timeouts+="${name}"$'\n'
      [[ "${mode}" == boot ]] || grep -qxF -- "${name}" "${before}" 2>/dev/null || continue
    fi
    text+="${text:+; }${name}: ${REPORT_FOUND[index]}, wanted ${REPORT_WANTED[index]}"
  done
  if [[ -n "${timeouts}" ]]; then
    mkdir -p "${HEALTH_STATE}" && printf '%s' "${timeouts}" >"${before}"
  else
    rm -f "${before}"
  fi
  printf '%s' "${text}"
}

# metrics: the checks' results for node_exporter, where steps/metrics.sh has made the folder. A check that was skipped, or is
# ignored, has no series.
health::metrics() {
  local -r file="${TRAINYARD_ROOT}/var/lib/trainyard/metrics/node-health"
  local -r now="$(date +%s)"
  local index ok="# TYPE trainyard_node_check_ok gauge"$'\n' times="# TYPE trainyard_node_check_time_seconds gauge"$'\n'
  for ((index = 0; index < ${#REPORT_NAMES[@]}; index++)); do
    ! grep -qsxF -- "${REPORT_NAMES[index]}" "${HEALTH_SKIP}" || continue
    case "${REPORT_VERDICTS[index]}" in
      skipped) continue ;;
      failure) ok+="trainyard_node_check_ok{check=\"${REPORT_NAMES[index]}\"} 0"$'\n' ;;
      *) ok+="trainyard_node_check_ok{check=\"${REPORT_NAMES[index]}\"} 1"$'\n' ;;
    esac
    times+="trainyard_node_check_time_seconds{check=\"${REPORT_NAMES[index]}\"} ${now}"$'\n'
  done
  if [[ -w "${file%/*}" ]]; then
    printf '%s%s' "${ok}" "${times}" >"${file}.tmp" && mv -f "${file}.tmp" "${file}.prom"
  fi
}

# out_of_service NODE: whether it is drained, down or failing already. POWERING_DOWN does not count.
health::out_of_service() {
  local state
  state="$(timeout 7 scontrol -o show node "$1" 2>/dev/null | grep -oE ' State=[^ ]+')" || return 1
  [[ "${state}" =~ [=+](DRAIN|DOWN|FAIL) ]]
}

# node: this node's name in Slurm.
health::node() {
  local node="${SLURMD_NODENAME:-}"
  # Only slurmd sets it. The host name is not Slurm's where ParallelCluster uses EC2's (Dns.UseEc2Hostnames).
  [[ -n "${node}" || ! -r "${HEALTH_NODE_NAME}" ]] || node="$(<"${HEALTH_NODE_NAME}")"
  printf '%s' "${node:-${HOSTNAME%%.*}}"
}

# check_reports: training jobs report a node that they lost, or whose ranks hung (jobs/watchdog/attempts.py).
# shellcheck disable=SC2329 # called by main
health::check_reports() {
  local -r folder="${TRAINYARD_ROOT}${NODE_RESULTS}/bad-nodes/$(health::node)"
  local -r wanted="fewer than ${HEALTH_REPORTS} since the boot" action="See ${folder}; ParallelCluster replaces a drained node."
  local booted ticks count
  [[ -n "${NODE_RESULTS}" ]] || return 0
  booted="$(sed -n 's/^btime //p' /proc/stat)"
  # PID 1's start (field 22 of stat, 1/100 s): a node in a container is younger than its kernel.
  ticks="$(sed 's/.*) //' /proc/1/stat | cut -d ' ' -f 20)"
  # Those of the cluster's user. From the folder above: find follows no link in it.
  scan::run find "${folder%/*}" -mindepth 1 -maxdepth 2 ! -path "${folder}" ! -path "${folder}/*" -prune -o \
    -path "${folder}/[!.]*.json" -type f -user "${NODE_USER}" -newermt "@$((booted + ticks / 100))" -print
  if ((STATUS == 124)); then
    report::timeout job-reports "${wanted}" "${action}"
  elif ((STATUS == 0)); then # find fails where nothing was ever reported: the folder does not exist
    count="$(grep -c . <<<"${ANSWER}")" || true
    report::require job-reports "${count}" "${wanted}" "${action}" "${count}" -lt "${HEALTH_REPORTS}"
  fi
}

# take_out STATE REASON
health::take_out() {
  local node answer
  node="$(health::node)"
  # DOWN also applies to a drained node, which would still start the job that it was powered up for.
  if [[ "$1" != DOWN ]] && health::out_of_service "${node}"; then
    health::log "unhealthy, and already out of service: $2"
    return 0
  fi
  # Slurm keeps some hundred characters of a reason.
  if answer="$(timeout 7 scontrol update "NodeName=${node}" "State=$1" "Reason=trainyard: ${2:0:240}" 2>&1)"; then
    health::log "set ${node} to $1: $2"
  else
    health::log "cannot set ${node} to $1 (${answer:-no answer}): $2"
    return 1
  fi
}

health::main() {
  local mode=periodic failures check
  case "${1:-}" in
    -h | --help) health::usage && exit 0 ;;
    --boot) mode=boot ;;
    --report) mode=report ;;
    "") SCAN_SECONDS=6 ;;
    *) scan::wrong "'$1' is not known; allowed: --boot, --report, --help" ;;
  esac
  (($# <= 1)) || scan::wrong "at most one option, not: $*"
  if minimums::readable; then
    node::identify compute
    for check in gpus::check gpus::check_fabric_manager fabric::check_devices fabric::check_installer disks::check_scratch \
      disks::check_mounts health::check_reports; do
      [[ "${mode}" != periodic ]] || ((SECONDS < HEALTH_SECONDS)) || break
      "${check}"
    done
  fi
  health::metrics 2>/dev/null || true
  failures="$(health::failures "${mode}")"
  [[ -n "${failures}" ]] || exit 0
  if [[ "${mode}" != report ]] && ! settings::health_check 2>/dev/null; then
    health::log "unhealthy, left in service because the queue's health check is off: ${failures}"
    exit 0
  fi
  case "${mode}" in
    report) printf '%s\n' "${failures}" ;;
    boot)
      health::take_out DOWN "${failures}" || true
      printf '%s\n' "${failures}"
      ;;
    periodic)
      health::take_out DRAIN "${failures}"
      exit 0
      ;;
  esac
  exit 1
}

health::main "$@"
