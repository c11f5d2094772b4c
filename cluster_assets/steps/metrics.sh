#!/usr/bin/env bash
# Metrics and logs of this node, if the environment file has observability: node_exporter with our collector, dcgm-exporter where the node has
# GPUs, jobs as labels of GPUs, and more logs (in mode cloudwatch also GPU metrics) from the CloudWatch agent of the AMI. Monitoring is never
# the reason that a bootstrap fails: each part runs in a process of its own, and its failure is a warning here and, by the missing exporter,
# `trainyard_collector_up 0`.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"
# shellcheck source=cluster_assets/lib/programs.sh
. "${TRAINYARD_LIB}/programs.sh"

readonly METRICS="/var/lib/trainyard/metrics" GPU_JOBS="/run/trainyard/gpu-jobs"
readonly SCRIPTS="${TRAINYARD_ROOT}/opt/slurm/etc/scripts"
readonly TMPFILES="${TRAINYARD_ROOT}/etc/tmpfiles.d/trainyard-metrics.conf"
readonly AGENT_FILE="${TRAINYARD_ROOT}/opt/trainyard/cloudwatch-agent-trainyard.json"

# A failure here ends a part of this step, not the bootstrap, whose log says FAILED for what does.
log::fail() {
  log::warn "$*"
  exit 1
}

metrics::is_compute() {
  [[ "${TRAINYARD_ROLE:-}" == compute-* ]]
}

metrics::is_head() {
  [[ "${TRAINYARD_ROLE:-}" == head-configured || "${TRAINYARD_ROLE:-}" == updated ]]
}

# gpus: how many this node must have; those that are there if its instance type is unknown. Head and login nodes serve none.
metrics::gpus() {
  metrics::is_compute || {
    echo 0
    return 0
  }
  # shellcheck disable=SC2016 # expanded by the inner shell
  bash -c '. "$1/lib/scan.sh" && . "$1/lib/node.sh" && node::identify compute && [[ "${INSTANCE_KNOWN}" == yes ]] && echo "${INSTANCE_GPUS}"' \
    gpus "${TRAINYARD_LIB}/../scans" || find "${TRAINYARD_ROOT}/dev" -maxdepth 1 -name 'nvidia[0-9]*' | wc -l
}

# address: of the interface with the default route, the only one that the monitoring host reaches.
metrics::address() {
  local interface address
  interface="$(ip -4 -o route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)"
  address="$(ip -4 -o address show ${interface:+dev "${interface}"} scope global | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)"
  [[ -n "${address}" ]] || log::fail "this node has no global IPv4 address: exporters are not started"
  printf '%s' "${address}"
}

# unit NAME <SERVICE SECTION: a service that starts with the node, within a limit of CPU and memory.
metrics::unit() {
  # Not in a pipeline, whose processes cannot count in FILES_WRITTEN.
  FILES_WRITTEN=0
  files::write "${UNITS}/$1.service" 0644 < <(
    printf '[Unit]\nDescription=Trainyard monitoring: %s\nAfter=network-online.target nvidia-dcgm.service\nWants=network-online.target\n[Service]\n' "$1"
    cat
    # A process that fails because of a missing DCGM is started again, without end and slowly.
    printf 'Restart=always\nRestartSec=15\nNoNewPrivileges=yes\nPrivateTmp=yes\nNice=10\n[Install]\nWantedBy=multi-user.target\n'
  )
  units::start "$1.service"
}

# folders: of the text files and of the jobs of GPUs. A restarted node has none of its jobs any more; /run is empty then.
metrics::folders() {
  files::folder "${TRAINYARD_ROOT}${METRICS}" 0755
  files::folder "${TRAINYARD_ROOT}${GPU_JOBS}" 0755
  files::write "${TMPFILES}" 0644 <<END
d ${GPU_JOBS} 0755 root root
r! ${METRICS}/job-*
END
}

metrics::node_exporter() {
  local address program
  address="$(metrics::address)"
  ! metrics::is_head || programs::share node_exporter
  programs::install node_exporter node_exporter
  # The path has the SHA-256, so that a new version restarts the service.
  program="$(readlink -f "${PROGRAMS}/node_exporter")"
  # Without a series per virtual machine guest and per Infiniband port (EFA's counters are our collector's).
  metrics::unit trainyard-node-exporter <<END
DynamicUser=yes
ExecStart=${program#"${TRAINYARD_ROOT}"} --web.listen-address=${address}:9100 --collector.textfile.directory=${METRICS} \
--no-collector.infiniband --no-collector.cpu.guest --no-collector.arp --no-collector.softnet --no-collector.schedstat --no-collector.nfsd --log.level=warn
CPUQuota=10%
MemoryMax=100M
END
}

# As root, because debugfs is root's; with no more of its rights than to read files and the kernel's log. It goes on if its nvidia-smi is killed.
metrics::node_collector() {
  local address python
  address="$(metrics::address)"
  python="$(base::python)"
  metrics::unit trainyard-node-collector <<END
ExecStart=${python} ${BUNDLE}/monitoring/node-collector.py --folder ${METRICS} --address ${address} --gpus $(metrics::gpus)
CapabilityBoundingSet=CAP_SYSLOG CAP_DAC_READ_SEARCH
ProtectSystem=strict
ReadWritePaths=${METRICS}
CPUQuota=10%
MemoryMax=100M
OOMPolicy=continue
END
}

# The AMI's DCGM (nvidia-dcgm.service, as root) answers on loopback; the exporter needs no rights.
metrics::dcgm_exporter() {
  local address
  if metrics::is_head && [[ "$(settings::get 'any(.queues[].compute[].instances[]; .gpus > 0)')" == true ]]; then
    programs::share dcgm-exporter
  fi
  (($(metrics::gpus))) || return 0
  address="$(metrics::address)"
  command -v nv-hostengine >/dev/null || log::fail "this AMI has no DCGM (nv-hostengine): use an official ParallelCluster AMI, or install datacenter-gpu-manager-4-core"
  systemctl enable --now nvidia-dcgm.service || log::warn "nvidia-dcgm.service did not start"
  programs::install dcgm-exporter usr/bin/dcgm-exporter
  metrics::unit trainyard-dcgm-exporter <<END
DynamicUser=yes
Environment=DCGM_HPC_JOB_MAPPING_DIR=${GPU_JOBS} GOMEMLIMIT=150MiB GOMAXPROCS=2
ExecStart=/opt/trainyard/programs/dcgm-exporter --remote-hostengine-info localhost:5555 --address ${address}:9400 \
--collectors ${BUNDLE}/monitoring/dcgm-counters.csv --collect-interval 15000
CPUQuota=25%
MemoryHigh=300M
MemoryMax=400M
END
}

# prolog: the shared folders of Slurm's scripts, which the head node writes; ParallelCluster runs all scripts in them.
metrics::prolog() {
  local phase
  metrics::is_head || return 0
  for phase in prolog epilog; do
    [[ -d "${SCRIPTS}/${phase}.d" ]] || log::fail "${SCRIPTS}/${phase}.d is missing: GPU series get no job label"
    files::write "${SCRIPTS}/${phase}.d/20_trainyard_job_labels" 0755 <"${TRAINYARD_LIB}/../monitoring/job-labels.sh"
  done
}

# cloudwatch MODE: a file of ours for the AMI's agent, appended to ParallelCluster's. Its log group's name is in dna.json. The head node's
# agent gets no metrics of ours: the namespace would then also apply to those of ParallelCluster's dashboard and alarms.
metrics::cloudwatch() {
  local group gpus=0
  group="$(monitoring::log_group "logs")" || return 0
  [[ "$1" != cloudwatch ]] || gpus="$(metrics::gpus)"
  monitoring::add_to_agent "${AGENT_FILE}" < <(jq -n --arg group "${group}" --arg host "${HOSTNAME%%.*}" --argjson gpus "${gpus}" --arg namespace "Trainyard/$(settings::get .environment)" '
    {logs: {logs_collected: {files: {collect_list: [("bootstrap", "health") |
      {file_path: "/var/log/trainyard/\(.).log", log_group_name: $group, log_stream_name: "\($host).{instance_id}.trainyard-\(.)"}]}}}}
    + if $gpus == 0 then {} else {metrics: {namespace: $namespace, append_dimensions: {InstanceId: "${aws:InstanceId}"},
      aggregation_dimensions: [["InstanceId"], []],
      metrics_collected: {nvidia_gpu: {measurement: ["utilization_gpu", "memory_used", "memory_total", "temperature_gpu"], metrics_collection_interval: 60}}}} end
  ')
}

# stop: remove what a mode before this one has started, with the services first.
metrics::stop() {
  local unit
  for unit in trainyard-{node-exporter,node-collector,dcgm-exporter}.service; do
    ! units::stop "${unit}" || log::info "removed ${unit}"
  done
  ! metrics::is_head || rm -f "${SCRIPTS}"/{prolog,epilog}.d/20_trainyard_job_labels
  [[ ! -e "${TMPFILES}" ]] || rm -rf "${TMPFILES}" "${TRAINYARD_ROOT:?}${METRICS}" "${TRAINYARD_ROOT}${GPU_JOBS}"
}

metrics::stop_cloudwatch() {
  monitoring::take_from_agent "${AGENT_FILE}"
}

metrics::main() {
  local mode part parts=(folders prolog node_exporter dcgm_exporter node_collector cloudwatch)
  mode="$(settings::get .monitoring.mode)"
  # Slurm does not know login nodes, so Prometheus has no list of them.
  case "${mode:-off} ${TRAINYARD_ROLE:-}" in
    "off "*) parts=(stop stop_cloudwatch) ;;
    "cloudwatch "* | *" login-"*) parts=(stop cloudwatch) ;;
  esac
  for part in "${parts[@]}"; do
    monitoring::part "monitoring: ${part//_/ } failed, the bootstrap continues" "${part}" "${mode}"
  done
}

if (($#)); then
  "metrics::$1" "${@:2}"
else
  metrics::main
fi
