#!/usr/bin/env bash
# Outputs of jobs in the environment's folders for logs, to the cluster's log group, if the environment file has observability. Head node only.
#
# The CloudWatch agent runs as root and opens every path that its pattern matches. So it reads a folder of root's on this node's disk only, to
# which monitoring/job-logs.py copies what is new, each minute: nothing is written to the file systems. A failure here is a warning.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

readonly AGENT_FILE="${TRAINYARD_ROOT}/opt/trainyard/cloudwatch-agent-jobs.json"
readonly COPIES="/var/log/trainyard/jobs"

job_logs::folders() {
  settings::get '[.folders.logs, .models[].folders.logs] | map(select(.)) | unique[]'
}

job_logs::stop() {
  ! units::stop trainyard-job-logs.timer || rm -rf "${TRAINYARD_ROOT}${COPIES}"
  monitoring::take_from_agent "${AGENT_FILE}"
}

job_logs::start() {
  local group python folders
  group="$(monitoring::log_group "outputs of jobs")" || return 0
  python="$(base::python)"
  mapfile -t folders < <(job_logs::folders)
  files::folder "${TRAINYARD_ROOT}${COPIES}" 0700
  files::write "${UNITS}/trainyard-job-logs.service" 0644 <<END
[Unit]
Description=Outputs of jobs that go to CloudWatch Logs
[Service]
Type=oneshot
ExecStart=${python} ${BUNDLE}/monitoring/job-logs.py --to ${COPIES} ${folders[*]}
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
ProtectSystem=strict
ReadWritePaths=${COPIES}
Nice=10
CPUQuota=25%
MemoryMax=256M
TimeoutStartSec=300
END
  units::timer job-logs "Outputs of jobs that go to CloudWatch Logs" OnBootSec=60 OnUnitInactiveSec=60
  # One stream for each file: job_ and its path, with _ for / (amazon-cloudwatch-agent v1.300070.0, logfile.go, generateLogStreamName).
  monitoring::add_to_agent "${AGENT_FILE}" < <(jq -n --arg group "${group}" --arg copies "${COPIES}" '
    {logs: {logs_collected: {files: {collect_list: [
      {file_path: "\($copies)/*.out", log_group_name: $group, log_stream_name: "job", publish_multi_logs: true}]}}}}')
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
