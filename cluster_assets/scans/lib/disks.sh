# The local NVMe scratch and the shared file systems. Needs scan.sh and the variables of node.sh.

disks::terabytes() {
  printf '%d.%02d TB' $(($1 / 1000)) $(($1 % 1000 / 10))
}

disks::check_scratch() {
  local -r scratch="${NODE_SCRATCH}"
  local unit total available size free verdict=ok
  if [[ "${INSTANCE_KNOWN}" != yes || -z "${scratch}" ]] || ((INSTANCE_NVME_GB == 0)); then
    report::add scratch skipped "not checked" "no local NVMe, or the instance type unknown"
    return 0
  fi
  local -r path="${TRAINYARD_ROOT}${scratch}" wanted="$(disks::terabytes "${INSTANCE_NVME_GB}")"
  scan::run mountpoint -q "${path}"
  if ((STATUS && STATUS != 124)); then
    report::add scratch failure "${scratch} is not mounted" "${wanted} at ${scratch}" \
      "See journalctl -u setup-ephemeral; have the node replaced."
    return 0
  fi
  ((STATUS)) || scan::run stat --file-system --format='%S %b %a' "${path}"
  if ((STATUS == 124)); then
    report::timeout scratch-size "${wanted}" "Read dmesg for errors of the NVMe disks."
    return 0
  elif ((STATUS)); then
    report::add scratch-size failure "${ANSWER##*: }" "${wanted}" "Read dmesg for errors of the NVMe disks."
  else
    local -r percent="$(minimums::get figures.scratch-percent.minimum)" least_free="$(minimums::get figures.scratch-free-percent.minimum)"
    read -r unit total available <<<"${ANSWER}"
    size=$((unit * total / 1000000000)) free=$((total > 0 ? available * 100 / total : 0))
    report::require scratch-size "$(disks::terabytes "${size}")" "${wanted}, at least ${percent} %" \
      "A disk is missing (lsblk lists those present): have the node replaced." $((size * 100)) -ge $((INSTANCE_NVME_GB * percent))
    ((free >= least_free)) || verdict=warning
    report::add scratch-free "${verdict}" "${free} % free" "${least_free} % or more" "Remove what jobs left there."
  fi
  disks::check_write "${path}" "${scratch}"
}

# check_write PATH SHOWN: as the user who runs the scan.
disks::check_write() {
  local -r wanted="a file can be written" action="Read dmesg for errors of the NVMe disks; free space on $2."
  local verdict=failure
  if [[ ! -w "$1" && "${EUID}" != 0 ]]; then
    report::add scratch-write skipped "you may not write to $2" "${wanted}"
    return 0
  fi
  scan::run bash -c 'file="$(mktemp "$1/.trainyard.XXXXXX")" && printf x >"${file}" && sync "${file}"; status=$?; rm -f "${file}"; exit "${status}"' write "$1"
  case "${STATUS}" in
    0) report::add scratch-write ok "a file was written" "${wanted}" ;;
    124) report::timeout scratch-write "${wanted}" "${action}" ;;
    *)
      [[ ! "${ANSWER}" =~ "No space left"|"quota exceeded" ]] || verdict=warning # a job's files, not the disk
      report::add scratch-write "${verdict}" "${ANSWER##*: }" "${wanted}" "${action}"
      ;;
  esac
}

disks::check_mounts() {
  local path missing=() silent=() asked=() verdict=ok
  local -r paths=("${NODE_MOUNTS[@]}") begun="${SECONDS}"
  if ((${#paths[@]} == 0)); then
    report::add file-systems skipped "not checked" "settings.json names none"
    return 0
  fi
  for path in "${paths[@]}"; do
    ((SECONDS - begun < 2 * SCAN_SECONDS)) || break # two that do not answer are enough
    asked+=("${path}")
    # As in steps/mounts.sh: statfs mounts what is mounted at its first use, and an automount alone is none.
    scan::run stat --file-system --format=%T "${TRAINYARD_ROOT}${path}"
    if [[ "${STATUS}" == 0 && "${ANSWER}" == autofs ]]; then
      STATUS=1
    elif ((STATUS == 0)); then
      scan::run mountpoint -q "${TRAINYARD_ROOT}${path}"
    fi
    case "${STATUS}" in
      0) ;;
      124) silent+=("${path}") ;;
      *) missing+=("${path}") ;;
    esac
  done
  if ((${#missing[@]})); then
    report::add file-systems failure "not mounted: ${missing[*]}" "${paths[*]}" "sudo mount -a on the node; the security groups must let it reach the file system."
  elif ((${#silent[@]})); then
    report::timeout file-systems "${paths[*]}" "${silent[*]} does not answer: check the file system's state in FSx."
  else
    ((${#asked[@]} == ${#paths[@]})) || verdict=warning
    report::add file-systems "${verdict}" "${asked[*]}" "${paths[*]}" "They answer slowly: check their state in FSx."
  fi
}
