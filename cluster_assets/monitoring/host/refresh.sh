#!/usr/bin/env bash
# Every minute: the head node's address, which changes when the head node is replaced, and a heartbeat. Without the latter for
# ten minutes an alarm notifies: a monitoring host that is down sends no alerts.
set -euo pipefail

# shellcheck disable=SC1090
. "${SETTINGS:-/etc/trainyard/monitoring.env}"
HOSTS="${HOSTS:-/etc/hosts}"

refresh::head() {
  local address
  address="$(aws ssm get-parameter --region "${REGION}" --name "/trainyard/${ENVIRONMENT}/head-node/private-ip" --query Parameter.Value --output text)"
  [[ "${address}" =~ ^[0-9.]+$ ]] || return 0
  grep -qxF "${address} ${HEAD}" "${HOSTS}" || {
    sed "/ ${HEAD}\$/d" "${HOSTS}" >"${HOSTS}.new"
    printf '%s %s\n' "${address}" "${HEAD}" >>"${HOSTS}.new"
    cat "${HOSTS}.new" >"${HOSTS}"
  }
}

refresh::alive() {
  local path paths=(9090/-/ready)
  [[ "${MODE}" == managed ]] || paths+=(9093/-/ready 3000/api/health)
  for path in "${paths[@]}"; do
    curl -fsS --max-time 10 -o /dev/null "http://127.0.0.1:${path}"
  done
  aws cloudwatch put-metric-data --region "${REGION}" --namespace "Trainyard/${ENVIRONMENT}" --metric-name MonitoringHostReady --value 1
}

refresh::head || printf 'monitoring: the address of the head node cannot be read\n' >&2
refresh::alive
