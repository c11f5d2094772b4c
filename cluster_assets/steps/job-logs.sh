#!/usr/bin/env bash
# Outputs of jobs in the environment's folders for logs, to the cluster's log group, if the environment file has observability. Head node only.
#
# The CloudWatch agent runs as root and keeps every file open that its pattern matches. So it gets a folder of root's on each file system, with
# hard links to the outputs of the last day, which a timer makes and removes. A link to a symbolic link is that link, and is removed: nothing
# that a user puts into a folder for logs makes the agent read another file. A failure here is a warning.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

readonly AGENT="${TRAINYARD_ROOT}/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
readonly AGENT_FILE="${TRAINYARD_ROOT}/opt/trainyard/cloudwatch-agent-jobs.json"
readonly UNIT="${TRAINYARD_ROOT}/etc/systemd/system/trainyard-job-logs"
readonly LINKS=".trainyard-job-logs"

# folders: each folder for logs, and the mount that it is on, separated by a tab.
job_logs::folders() {
  # shellcheck disable=SC2016 # jq's variables
  settings::get '[.mounts[].path] as $mounts | [.folders.logs, .models[].folders.logs] | map(select(.)) | unique[]
    | . as $folder | [$folder, ($mounts | map(select(. as $mount | $folder | startswith($mount + "/"))) | max_by(length))] | @tsv'
}

# link: what the timer runs.
job_logs::link() {
  local folder mount links file link
  while IFS=$'\t' read -r folder mount; do
    links="${TRAINYARD_ROOT}${mount}/${LINKS}"
    files::folder "${links}" 0700
    [[ -d "${TRAINYARD_ROOT}${folder}" ]] || continue
    while IFS= read -r -d '' file; do
      link="${links}/${folder//\//_}_${file##*/}"
      [[ -e "${link}" ]] || ln -P -- "${file}" "${link}" 2>/dev/null || continue
      [[ -f "${link}" && ! -L "${link}" ]] || rm -f -- "${link}"
    done < <(find "${TRAINYARD_ROOT}${folder}" -maxdepth 1 -type f -name '*-[0-9]*.out' -mmin -1440 -print0)
    # Old ones, and those whose output was deleted.
    find "${links}" -mindepth 1 \( -mmin +1440 -o -links 1 \) -delete
  done < <(job_logs::folders)
}

job_logs::stop() {
  if [[ -e "${UNIT}.timer" ]]; then
    systemctl disable --now trainyard-job-logs.timer
    rm -f "${UNIT}.timer" "${UNIT}.service"
    systemctl daemon-reload
  fi
  [[ -e "${AGENT_FILE}" ]] || return 0
  [[ ! -x "${AGENT}" ]] || "${AGENT}" -a remove-config -m ec2 -c "file:${AGENT_FILE}" -s >/dev/null
  rm -f "${AGENT_FILE}"
}

job_logs::start() {
  local -r group="$(settings::node_value log_group_name)"
  if [[ ! -x "${AGENT}" || -z "${group}" || "${group}" == NONE ]]; then
    log::info "no CloudWatch agent on this node, or the cluster has no log group: outputs of jobs stay on the file systems"
    return 0
  fi
  files::write "${UNIT}.service" 0644 <<'END'
[Unit]
Description=Outputs of jobs that go to CloudWatch Logs
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trainyard/current/steps/job-logs.sh link
Nice=10
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
  files::write "${AGENT_FILE}" 0644 < <(job_logs::folders | jq -Rn --arg group "${group}" --arg links "${LINKS}" '
    {logs: {logs_collected: {files: {collect_list: [[inputs / "\t" | .[1]] | unique[]
      | {file_path: "\(.)/\($links)/*.out", log_group_name: $group, log_stream_name: "job", publish_multi_logs: true}]}}}}')
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
