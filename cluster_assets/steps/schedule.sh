#!/usr/bin/env bash
# A timer on the head node that checks idle nodes, if the environment file has validation.schedule; otherwise there is none.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

readonly UNIT="${TRAINYARD_ROOT}/etc/systemd/system/trainyard-idle-nodes"

schedule::main() {
  local calendar
  calendar="$(settings::get .validation.calendar)"
  if [[ -z "${calendar}" ]]; then
    [[ -e "${UNIT}.timer" ]] || return 0
    systemctl disable --now trainyard-idle-nodes.timer
    rm -f "${UNIT}.timer" "${UNIT}.service"
    systemctl daemon-reload
    log::info "idle nodes are not checked any more"
    return 0
  fi
  base::need 1 systemctl
  files::write "${UNIT}.service" 0644 <<'END'
[Unit]
Description=Check of the nodes that are idle
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trainyard/current/validation/idle-nodes.sh
END
  files::write "${UNIT}.timer" 0644 <<END
[Unit]
Description=Check of the nodes that are idle
[Timer]
OnCalendar=${calendar}
[Install]
WantedBy=timers.target
END
  if ((FILES_WRITTEN)); then
    systemctl daemon-reload
    systemctl enable trainyard-idle-nodes.timer
    systemctl restart trainyard-idle-nodes.timer
  fi
  log::info "idle nodes are checked at: ${calendar}"
}

schedule::main
