#!/usr/bin/env bash
# Outputs of jobs in the environment's folders for logs, to the cluster's log group, if the environment file has observability. Head node only.
#
# The CloudWatch agent runs as root and opens every path that its pattern matches. So it reads a folder of root's on this node's disk only, to
# which monitoring/job-logs.py copies what is new, each minute: nothing is written to the file systems. A failure here is a warning.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

readonly AGENT="${TRAINYARD_ROOT}/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
readonly AGENT_FILE="${TRAINYARD_ROOT}/opt/trainyard/cloudwatch-agent-jobs.json"
readonly UNIT="${TRAINYARD_ROOT}/etc/systemd/system/trainyard-job-logs"
readonly COPIES="/var/log/trainyard/jobs"

job_logs::folders() {
  settings::get '[.folders.logs, .models[].folders.logs] | map(select(.)) | unique[]'
}

job_logs::stop() {
  if [[ -e "${UNIT}.timer" ]]; then
    systemctl disable --now trainyard-job-logs.timer
    rm -f "${UNIT}.timer" "${UNIT}.service"
    systemctl daemon-reload
    rm -rf "${TRAINYARD_ROOT}${COPIES}"
  fi
  [[ -e "${AGENT_FILE}" ]] || return 0
  [[ ! -x "${AGENT}" ]] || "${AGENT}" -a remove-config -m ec2 -c "file:${AGENT_FILE}" -s >/dev/null
  rm -f "${AGENT_FILE}"
}

job_logs::start() {
  local -r group="$(settings::node_value log_group_name)"
  local python bundle folders
  if [[ ! -x "${AGENT}" || -z "${group}" || "${group}" == NONE ]]; then
    log::info "no CloudWatch agent on this node, or the cluster has no log group: outputs of jobs stay on the file systems"
    return 0
  fi
  python="$(base::python)"
  # Of this version, without the root of the tests.
  bundle="$(cd "${TRAINYARD_LIB}/.." && pwd -P)"
  mapfile -t folders < <(job_logs::folders)
  files::folder "${TRAINYARD_ROOT}${COPIES}" 0700
  files::write "${UNIT}.service" 0644 <<END
[Unit]
Description=Outputs of jobs that go to CloudWatch Logs
[Service]
Type=oneshot
ExecStart=${python} ${bundle#"${TRAINYARD_ROOT}"}/monitoring/job-logs.py --to ${COPIES} ${folders[*]}
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
ProtectSystem=strict
ReadWritePaths=${COPIES}
Nice=10
CPUQuota=25%
MemoryMax=256M
TimeoutStartSec=300
END
  files::write "${UNIT}.timer" 0644 <<'END'
[Unit]
Description=Outputs of jobs that go to CloudWatch Logs
[Timer]
OnBootSec=60
OnUnitInactiveSec=60
[Install]
WantedBy=timers.target
END
  monitoring::start trainyard-job-logs.timer
  FILES_WRITTEN=0
  # One stream for each file: job_ and its path, with _ for / (amazon-cloudwatch-agent v1.300070.0, logfile.go, generateLogStreamName).
  files::write "${AGENT_FILE}" 0644 < <(jq -n --arg group "${group}" --arg copies "${COPIES}" '
    {logs: {logs_collected: {files: {collect_list: [
      {file_path: "\($copies)/*.out", log_group_name: $group, log_stream_name: "job", publish_multi_logs: true}]}}}}')
  ((FILES_WRITTEN == 0)) || "${AGENT}" -a append-config -m ec2 -c "file:${AGENT_FILE}" -s >/dev/null || {
    rm -f "${AGENT_FILE}"
    log::fail "the CloudWatch agent refused our configuration: see /opt/aws/amazon-cloudwatch-agent/logs"
  }
}

job_logs::main() {
  local mode
  mode="$(settings::get .monitoring.mode)"
  if [[ "${mode:-off}" == off || -z "$(job_logs::folders)" ]]; then
    job_logs::stop
  else
    job_logs::start
  fi
}

if (($#)); then
  "job_logs::$1"
else
  monitoring::part "outputs of jobs are not sent to CloudWatch Logs: the reason is above" main
fi
