#!/usr/bin/env bash
# Installs and starts the programs of the monitoring host. Runs at each start of the instance until it succeeds, and changes nothing
# that is right already. Programs listen on loopback only: access is by Systems Manager, which authenticates.
set -euo pipefail
shopt -s inherit_errexit

ROOT="${ROOT:-}" # tests only
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
DATA="${ROOT}/var/lib/monitoring"
PROGRAMS="${ROOT}/opt/monitoring"
UNITS="${ROOT}/etc/systemd/system"
SETTINGS="${ROOT}/etc/trainyard/monitoring.env"
WAIT_S="${WAIT_S:-10}"
# The limit includes the write-ahead log. Compaction needs free space in addition.
DATA_PERCENT=70

log::info() {
  printf '%s monitoring: %s\n' "$(date -u +%FT%TZ)" "$*" >&2
}

# Attach and mount the data volume. The one before may still hold it: EC2 detaches it when that instance is gone.
host::volume() {
  local -r device="${ROOT}/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${VOLUME_ID/-/}"
  mkdir -p "${DATA}"
  if mountpoint -q "${DATA}"; then
    return 0
  fi
  until [[ -e "${device}" ]]; do
    aws ec2 attach-volume --region "${REGION}" --volume-id "${VOLUME_ID}" --instance-id "$(host::instance_id)" --device /dev/sdf >&2 ||
      log::info "the volume ${VOLUME_ID} is not free yet"
    sleep "${WAIT_S}"
  done
  # mkfs.xfs refuses a device that has a file system.
  if [[ -z "$(lsblk --noheadings --output FSTYPE "${device}")" ]]; then
    mkfs.xfs "${device}" >&2
  fi
  mount -o noatime,nodev,nosuid,noexec "${device}" "${DATA}"
  xfs_growfs "${DATA}" >&2
}

host::instance_id() {
  local token
  token="$(curl -fsS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)"
  curl -fsS -H "X-aws-ec2-metadata-token: ${token}" http://169.254.169.254/latest/meta-data/instance-id
}

# program NAME: unpack the pinned archive: from the assets bucket, which is the way of networks without internet access, else from
# its release.
host::program() {
  local -r name="$1"
  local url sha256 file target
  read -r url sha256 < <(python3 -c '
import json, sys
file = json.load(open(sys.argv[1]))[sys.argv[2]]["files"]["x86_64"]
print(file["url"], file["sha256"])' "${HERE}/programs.json" "${name}")
  target="${PROGRAMS}/versions/${sha256}"
  if [[ ! -d "${target}" ]]; then
    file="$(mktemp)"
    aws s3 cp --only-show-errors "s3://${ASSETS_BUCKET}/cluster/programs/${url##*/}" "${file}" 2>/dev/null ||
      curl -fsSL --retry 5 --retry-connrefused -o "${file}" "${url}"
    if ! sha256sum --check --quiet <<<"${sha256}  ${file}"; then
      rm -f "${file}"
      log::info "${url##*/} does not have the SHA-256 ${sha256}: not installed"
      return 1
    fi
    rm -rf "${target}.new"
    mkdir -p "${target}.new"
    tar -xzf "${file}" -C "${target}.new" --strip-components=1 --no-same-owner
    rm -f "${file}"
    mv "${target}.new" "${target}"
    log::info "${name}: ${url##*/}"
  fi
  ln -sfn "${target}" "${PROGRAMS}/${name}"
}

# service NAME: the unit with a user of its own. A running service is not restarted: a new configuration or program
# comes with a new instance, and a restart would reset the pending times of alerts.
host::service() {
  local -r name="$1"
  id -u "${name}" >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin "${name}"
  mkdir -p "${DATA}/${name}"
  # On another instance the user may have had another number.
  chown -R "${name}:${name}" "${DATA}/${name}"
  install -m 644 "${HERE}/host/units/${name}.service" "${UNITS}/"
  systemctl daemon-reload
  systemctl enable --quiet "${name}"
  systemctl start "${name}"
}

host::prometheus_arguments() {
  if [[ "${MODE}" == managed ]]; then
    printf '%s' "--agent --storage.agent.path=${DATA}/prometheus"
  else
    local -r megabytes=$((VOLUME_GIB * 1024 * DATA_PERCENT / 100))
    printf '%s' "--storage.tsdb.path=${DATA}/prometheus --storage.tsdb.retention.time=${RETENTION_DAYS}d --storage.tsdb.retention.size=${megabytes}MB"
  fi
}

host::main() {
  # shellcheck disable=SC1090
  . "${SETTINGS}"
  local name names=(node_exporter prometheus) failed=0
  if [[ "${MODE}" == managed ]]; then
    mkdir -p "${DATA}"
    # The workspace's address is not known when the configuration is rendered.
    sed -i "s|https://WORKSPACE/|${WORKSPACE_URL}|" "${HERE}/config/prometheus.yml"
  else
    host::volume
    names+=(alertmanager grafana)
  fi
  printf 'PROMETHEUS_ARGUMENTS=%s\n' "$(host::prometheus_arguments)" >"${SETTINGS%/*}/prometheus.env"
  install -m 755 "${HERE}/host/refresh.sh" "${PROGRAMS}/refresh.sh"
  install -m 644 "${HERE}/host/units/refresh.service" "${HERE}/host/units/refresh.timer" "${UNITS}/"
  systemctl daemon-reload
  systemctl enable --quiet --now refresh.timer
  for name in "${names[@]}"; do
    # A program that is missing stops no other. In the background, because `||` switches `set -e` off.
    {
      host::program "${name}"
      host::service "${name}"
    } &
    wait $! || failed=1
  done
  if [[ "${MODE}" == managed ]]; then
    python3 "${HERE}/host/publish_dashboards.py" "${HERE}/dashboards" || failed=1
  fi
  if ((failed)); then
    log::info "not everything is installed: see above"
    return 1
  fi
  log::info "installed: ${names[*]}"
}

mkdir -p "${PROGRAMS}/versions"
host::main
