#!/usr/bin/env bash
# A timer on the head node that checks idle nodes, if the environment file has validation.schedule; otherwise there is none.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

schedule::main() {
  local calendar
  calendar="$(settings::get .validation.calendar)"
  if [[ -z "${calendar}" ]]; then
    ! units::stop trainyard-idle-nodes.timer || log::info "idle nodes are not checked any more"
    return 0
  fi
  base::need 1 systemctl
  files::write "${UNITS}/trainyard-idle-nodes.service" 0644 <<'END'
[Unit]
Description=Check of the nodes that are idle
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trainyard/current/validation/idle-nodes.sh
END
  units::timer idle-nodes "Check of the nodes that are idle" "OnCalendar=${calendar}"
  log::info "idle nodes are checked at: ${calendar}"
}

schedule::main
