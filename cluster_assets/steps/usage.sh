#!/usr/bin/env bash
# Timers of the head node for budgets of teams and for idle interactive jobs, which people.json has, if the environment has teams or qualities of
# service; and on nodes with GPUs, if one of these ends idle jobs, the service that sees whether they work. A failure is a warning, as with monitoring.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

readonly UNITS="${TRAINYARD_ROOT}/etc/systemd/system"
BUNDLE="$(cd "${TRAINYARD_LIB}/.." && pwd -P)"
readonly BUNDLE="${BUNDLE#"${TRAINYARD_ROOT}"}/usage"

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
  usage::unit "$1" "$2" "${python} ${BUNDLE}/$3 --settings /opt/trainyard/settings.json --people /opt/slurm/etc/trainyard/people.json --folder /var/lib/trainyard/usage-alerts" \
    "Type=oneshot" "TimeoutStartSec=300"
  files::write "${UNITS}/trainyard-$1.timer" 0644 <<END
[Unit]
Description=$2
[Timer]
OnBootSec=120
OnUnitInactiveSec=$4
[Install]
WantedBy=timers.target
END
  monitoring::start "trainyard-$1.timer"
}

usage::stop() {
  [[ -e "${UNITS}/$1" ]] || return 0
  systemctl disable --now "$1"
  rm -f "${UNITS}/${1%.*}.service" "${UNITS}/${1%.*}.timer"
  systemctl daemon-reload
}

usage::head() {
  if [[ -z "$(settings::get .usage)" ]]; then
    usage::stop trainyard-budgets.timer
    usage::stop trainyard-idle-gpus.timer
  else
    usage::timer budgets "Budgets of teams" budgets.py 3600
    usage::timer idle-gpus "Interactive jobs whose GPUs are idle" idle_gpus.py 60
  fi
}

usage::gpus() {
  local python shared
  shared="$(settings::get .bases.shared)"
  if [[ "$(settings::get .usage.idle_gpus)" != true || -z "${shared}" ]] || ! command -v nvidia-smi >/dev/null; then
    usage::stop trainyard-gpu-use.service
    return
  fi
  python="$(base::python)"
  FILES_WRITTEN=0
  usage::unit gpu-use "Whether the GPUs of this node work" "${python} ${BUNDLE}/gpu_use.py --file ${shared}/monitoring/gpus/$(hostname -s).json" \
    "Restart=always" "RestartSec=10" "[Install]" "WantedBy=multi-user.target"
  monitoring::start trainyard-gpu-use.service
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
