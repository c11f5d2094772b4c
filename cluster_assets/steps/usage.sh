#!/usr/bin/env bash
# On the head node: timers for team budgets and idle interactive jobs, if the environment has teams or QOS. On nodes with GPUs: the
# service that records when each GPU was last busy, if a QOS ends idle jobs. A failure is a warning, as with monitoring.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

# unit NAME DESCRIPTION COMMAND LINE...: a service with our settings; each LINE belongs to its section.
usage::unit() {
  files::write "${UNITS}/trainyard-$1.service" 0644 <<END
[Unit]
Description=$2
[Service]
Environment=PATH=/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin
ExecStart=$3
Nice=10
CPUQuota=25%
MemoryMax=512M
$(printf '%s\n' "${@:4}")
END
}

# timer NAME DESCRIPTION PROGRAM SECONDS: run a program of the head node again and again.
usage::timer() {
  local python
  python="$(base::python)"
  FILES_WRITTEN=0
  usage::unit "$1" "$2" "${python} ${BUNDLE}/usage/$3 --settings /opt/trainyard/settings.json --people /opt/slurm/etc/trainyard/people.json --folder /var/lib/trainyard/usage-alerts" \
    "Type=oneshot" "TimeoutStartSec=300"
  units::timer "$1" "$2" OnBootSec=120 "OnUnitInactiveSec=$4"
}

usage::head() {
  if [[ -z "$(settings::get .usage)" ]]; then
    units::stop trainyard-budgets.timer || true
    units::stop trainyard-idle-gpus.timer || true
  else
    usage::timer budgets "Budgets of teams" budgets.py 3600
    usage::timer idle-gpus "Interactive jobs whose GPUs are idle" idle_gpus.py 60
  fi
}

usage::gpus() {
  local python shared node
  shared="$(settings::get .bases.shared)"
  if [[ "$(settings::get .usage.idle_gpus)" != true || -z "${shared}" ]] || ! command -v nvidia-smi >/dev/null; then
    units::stop trainyard-gpu-use.service || true
    return 0
  fi
  python="$(base::python)"
  # The host name is not the node's where ParallelCluster uses EC2's (Dns.UseEc2Hostnames).
  node="$(cat "${TRAINYARD_ROOT}/etc/parallelcluster/slurm_plugin/slurm_nodename" 2>/dev/null || hostname -s)"
  FILES_WRITTEN=0
  usage::unit gpu-use "Records when each GPU of this node was last busy" "${python} ${BUNDLE}/usage/gpu_use.py --file ${shared}/monitoring/gpus/${node}.json" \
    "Restart=always" "RestartSec=10" "[Install]" "WantedBy=multi-user.target"
  units::start trainyard-gpu-use.service
}

usage::main() {
  local part=head
  if (($#)); then
    "usage::$1"
    return
  fi
  [[ "${TRAINYARD_ROLE:-}" != compute-* ]] || part=gpus
  monitoring::part "the timers or the service of usage are not set up: the reason is above" "${part}"
}

usage::main "$@"
