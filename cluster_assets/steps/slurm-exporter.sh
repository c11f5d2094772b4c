#!/usr/bin/env bash
# Monitoring of Slurm, on the head node: the exporter for Prometheus with the folder where the jobs' watchdogs write, and Slurm's mails as
# messages of the SNS topic. Monitoring is never the reason that a bootstrap fails: each part is a process, whose failure is a warning.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"
# shellcheck source=cluster_assets/lib/monitoring.sh
. "${TRAINYARD_LIB}/monitoring.sh"

readonly MAILS="${TRAINYARD_ROOT}/var/spool/trainyard/mail"
MODE="$(settings::get .monitoring.mode)"
readonly MODE

slurm_exporter::exporter() {
  local address shared python
  if [[ "${MODE}" != self-hosted && "${MODE}" != managed ]]; then
    units::stop trainyard-slurm-exporter.service || true
    return 0
  fi
  address="$(cat "${TRAINYARD_ROOT}"/opt/slurm/etc/slurm*.conf | sed -n 's/^SlurmctldHost=.*(\([0-9.]*\)).*/\1/p' | head -n 1)"
  [[ -n "${address}" ]] || log::fail "no SlurmctldHost with an address in /opt/slurm/etc"
  python="$(base::python)"
  shared="$(settings::get .bases.shared)"
  if [[ -n "${shared}" ]]; then
    files::folder "${TRAINYARD_ROOT}${shared}/monitoring" 0755
    files::folder "${TRAINYARD_ROOT}${shared}/monitoring/jobs" 1777
    # Watchdogs remove their files; those of killed ones go after two days.
    files::write "${TRAINYARD_ROOT}/etc/tmpfiles.d/trainyard-jobs.conf" 0644 <<<"e ${shared}/monitoring/jobs 1777 root root 2d"
  fi
  files::write "${UNITS}/trainyard-slurm-exporter.service" 0644 <<END
[Unit]
Description=Slurm's nodes and jobs for Prometheus
After=network-online.target
[Service]
ExecStart=${python} ${BUNDLE}/monitoring/slurm-exporter.py --listen ${address}:9101${shared:+ --jobs ${shared}/monitoring/jobs}
Environment=PATH=/opt/slurm/bin:/usr/bin:/bin
DynamicUser=yes
CapabilityBoundingSet=
ProtectHome=yes
Nice=10
CPUQuota=25%
MemoryMax=256M
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
END
  units::start trainyard-slurm-exporter.service
}

slurm_exporter::mail() {
  if [[ -z "${MODE}" ]]; then
    units::stop trainyard-mail.path || true
    rm -rf -- "${MAILS}"
    return
  fi
  mkdir -p "${MAILS}"
  chmod 0700 "${MAILS}"
  chown slurm: "${MAILS}"
  files::write "${UNITS}/trainyard-mail.service" 0644 <<END
[Unit]
Description=Slurm's mails to the environment's SNS topic
StartLimitIntervalSec=0
[Service]
Type=oneshot
# What arrives meanwhile becomes one message per user; and a fault is not tried again without a pause.
ExecStartPre=/bin/sleep 30
ExecStart=/bin/bash ${BUNDLE}/monitoring/slurm-mail.sh send
Nice=10
END
  files::write "${UNITS}/trainyard-mail.path" 0644 <<END
[Unit]
Description=Spool of Slurm's mails
[Path]
PathExistsGlob=/var/spool/trainyard/mail/*.json
[Install]
WantedBy=multi-user.target
END
  units::start trainyard-mail.path
}

slurm_exporter::main() {
  local part
  if (($#)); then
    "slurm_exporter::$1"
  else
    for part in exporter mail; do
      monitoring::part "Slurm's ${part} is not set up: the reason is above" "${part}"
    done
  fi
}

slurm_exporter::main "$@"
