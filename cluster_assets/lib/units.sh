# Sourced by common.sh: Trainyard's own units of systemd.

readonly UNITS="${TRAINYARD_ROOT}/etc/systemd/system"

# start UNIT: enable and restart a unit, unless it is active and enabled and no file is new.
units::start() {
  ((FILES_WRITTEN)) || ! systemctl is-active --quiet "$1" || ! systemctl is-enabled --quiet "$1" || return 0
  systemctl daemon-reload && systemctl enable "$1" && systemctl restart "$1"
}

# timer NAME DESCRIPTION LINE...: start the timer of the service trainyard-NAME; the LINEs of its section say when.
units::timer() {
  files::write "${UNITS}/trainyard-$1.timer" 0644 <<END
[Unit]
Description=$2
[Timer]
$(printf '%s\n' "${@:3}")
[Install]
WantedBy=timers.target
END
  units::start "trainyard-$1.timer"
}

# stop UNIT: stop and remove a unit that an earlier run started, and the service of a timer or path. Returns 1 if there is none, or if it does not
# stop; the next run tries again.
units::stop() {
  [[ -e "${UNITS}/$1" ]] || return 1
  systemctl disable --now "$1" || {
    log::warn "cannot stop $1: the next run of the bootstrap tries again"
    return 1
  }
  rm -f "${UNITS}/$1" "${UNITS}/${1%.*}.service"
  systemctl daemon-reload || log::warn "systemctl daemon-reload failed: systemd knows the removed $1 until the next one"
}
