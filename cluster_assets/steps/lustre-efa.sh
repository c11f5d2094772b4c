#!/usr/bin/env bash
# LNet over EFA, before ParallelCluster mounts an EFA-enabled Lustre file system. Nodes without EFA interfaces use TCP. A node that has
# them and cannot use them fails: it would read at a fraction of the speed, and nothing would say so.
# Commands and numbers of interfaces: FSx for Lustre guide, "Configuring EFA clients"; the place, OnNodeStart: ParallelCluster guide,
# "Creating a cluster with an EFA-enabled FSx Lustre" (both read on 2026-11-22).
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

# devices: the node's EFA interfaces, one per line.
lustre_efa::devices() {
  local path
  for path in "${TRAINYARD_ROOT}"/sys/class/infiniband/*; do
    [[ "$(basename "$(readlink -f "${path}/device/driver")")" != efa ]] || printf '%s\n' "${path##*/}"
  done
}

# chosen DEVICE...: 8 on nodes with as many (P5, P6), 2 on others with several, as in the guide, which has 16 for p6-b300; spread evenly,
# because neighbours share a PCI bus. Each counts towards the file system's limit of 1024 EFA connections.
lustre_efa::chosen() {
  local wanted=2 index at
  (($# < 8)) || wanted=8
  (($# > wanted)) || wanted=$#
  for ((index = 0; index < wanted; index++)); do
    at=$((index * $# / wanted + 1))
    printf '%s\n' "${!at}"
  done
}

lustre_efa::count() {
  lnetctl net show --net efa 2>/dev/null | grep -c '@efa' || true
}

# at_boot: a restarted node runs no OnNodeStart, and LNet forgets its interfaces.
lustre_efa::at_boot() {
  FILES_WRITTEN=0
  files::write "${TRAINYARD_ROOT}/etc/systemd/system/trainyard-lustre-efa.service" 0644 <<'END'
[Unit]
Description=Lustre over EFA
Wants=network-online.target remote-fs-pre.target
After=network-online.target
Before=remote-fs-pre.target
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trainyard/current/steps/lustre-efa.sh
[Install]
WantedBy=multi-user.target
END
  ((FILES_WRITTEN == 0)) || systemctl enable trainyard-lustre-efa.service
}

lustre_efa::main() {
  local devices interface device
  [[ "$(settings::get 'any(.mounts[]; .efa)')" == true ]] || return 0
  mapfile -t devices < <(lustre_efa::devices)
  if ((${#devices[@]} == 0)); then
    log::info "no EFA interface on this node: Lustre uses TCP"
    return 0
  fi
  base::need 1 ip lnetctl modinfo modprobe systemctl
  modinfo kefalnd >/dev/null 2>&1 ||
    log::fail "the Lustre client of this node has no EFA module (kefalnd): use an AMI with Amazon Linux 2023, RHEL 9.5 or later, or Ubuntu \
22.04 or later with kernel 6.8 or later; or set storage.lustre[].efa to false"
  interface="$(ip -4 -o route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)"
  [[ -n "${interface}" ]] || log::fail "no default route: Lustre has no interface for TCP"
  mapfile -t devices < <(lustre_efa::chosen "${devices[@]}")
  if (($(lustre_efa::count) < ${#devices[@]})); then
    if ! { modprobe lnet && modprobe kefalnd "ipif_name=${interface}" && modprobe ksocklnd && lnetctl lnet configure; }; then
      log::fail "cannot load LNet with EFA: see dmesg"
    fi
    lnetctl net del --net tcp 2>/dev/null || true
    lnetctl net add --net tcp --if "${interface}" || log::fail "lnetctl cannot add ${interface} as tcp: see dmesg"
    for device in "${devices[@]}"; do
      lnetctl net add --net efa --if "${device}" --peer-credits 32 || log::warn "lnetctl cannot add ${device} as efa"
    done
    # Peers are found over TCP, and EFA is preferred where both have it.
    if ! { lnetctl set discovery 1 && lnetctl udsp add --src efa --priority 0 && modprobe lustre; }; then
      log::fail "LNet cannot prefer EFA: see dmesg"
    fi
  fi
  (($(lustre_efa::count) == ${#devices[@]})) ||
    log::fail "LNet has $(lustre_efa::count) of ${#devices[@]} EFA interfaces: see dmesg and 'lnetctl net show'"
  lustre_efa::at_boot
  log::info "Lustre over EFA: ${devices[*]}; TCP: ${interface}"
}

lustre_efa::main
