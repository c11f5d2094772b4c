#!/usr/bin/env bash
# User data of the monitoring host; trainyard.monitoring_host replaces the words between @. A service fetches the bundle and installs
# it, at each start and again every minute until it succeeds.
set -euo pipefail

mkdir -p /etc/trainyard
cat >/etc/trainyard/monitoring.env <<'END'
@VALUES@
END
cat >/usr/local/sbin/trainyard-monitoring <<'END'
#!/usr/bin/env bash
set -euo pipefail
file="$(mktemp)"
trap 'rm -f "${file}"' EXIT
aws s3 cp --only-show-errors @URL@ "${file}"
sha256sum --check --quiet <<<"@SHA256@  ${file}"
rm -rf /opt/trainyard/monitoring
mkdir -p /opt/trainyard/monitoring
tar -xf "${file}" -C /opt/trainyard/monitoring --no-same-owner
set -a
# shellcheck disable=SC1091
. /etc/trainyard/monitoring.env
set +a
bash /opt/trainyard/monitoring/host/install.sh
END
chmod 755 /usr/local/sbin/trainyard-monitoring
cat >/etc/systemd/system/trainyard-monitoring.service <<'END'
[Unit]
Description=Installs the monitoring programs
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/trainyard-monitoring
Restart=on-failure
RestartSec=60

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now --no-block trainyard-monitoring
