# shellcheck shell=bash
# The local NVMe scratch, and the shared file systems. Needs scan.sh, settings.sh, and what instance::load sets.

# terabytes GIGABYTES
disks::terabytes() {
  printf '%d.%02d TB' $(($1 / 1000)) $(($1 % 1000 / 10))
}

disks::scratch() {
  local queue
  queue="$(settings::queue)"
  # shellcheck disable=SC2016 # $queue is jq's
  jq -r --arg queue "${queue}" '[.queues[] | select(.name == $queue or $queue == "") | .scratch | values] | first // empty' \
    "${TRAINYARD_SETTINGS}" 2>/dev/null || true
}

# check_scratch: mounted, of the right size, writable, not full.
disks::check_scratch() {
  local -r scratch="$(disks::scratch)"
  if [[ "${INSTANCE_KNOWN}" != yes || -z "${scratch}" ]] || ((INSTANCE_NVME_GB == 0)); then
    report::add scratch skipped "not looked for" "no local NVMe, or the instance type unknown"
    return 0
  fi
  local -r path="${TRAINYARD_ROOT}${scratch}"
  if ! timeout "${SCAN_SECONDS}" mountpoint -q "${path}"; then
    report::add scratch failure "${scratch} is not mounted" "$(disks::terabytes "${INSTANCE_NVME_GB}") at ${scratch}" \
      "journalctl -u setup-ephemeral says why; have the node replaced."
    return 0
  fi
  disks::_size "${path}"
  disks::_write "${path}" "${scratch}"
}

disks::_size() {
  local -r percent="$(minimums::get figures.scratch-percent.minimum)" least_free="$(minimums::get figures.scratch-free-percent.minimum)"
  local status=0 unit total free size available
  scan::bounded stat --file-system --format='%S %b %a' "$1" || status="$?"
  if ((status)); then
    report::no_answer scratch-size "${SCAN_SECONDS}" "$(disks::terabytes "${INSTANCE_NVME_GB}")" "Read dmesg for errors of the NVMe disks."
    return 0
  fi
  read -r unit total available <<<"${ANSWER}"
  size=$((unit * total / 1000000000)) free=$((total > 0 ? available * 100 / total : 0))
  local -r wanted="$(disks::terabytes "${INSTANCE_NVME_GB}"), at least ${percent} %"
  if ((size * 100 < INSTANCE_NVME_GB * percent)); then
    report::add scratch-size failure "$(disks::terabytes "${size}")" "${wanted}" "A disk is missing (lsblk shows which are there): have the node replaced."
  else
    report::add scratch-size ok "$(disks::terabytes "${size}")" "${wanted}"
  fi
  if ((free < least_free)); then
    report::add scratch-free warning "${free} % free" "${least_free} % or more" "Remove what jobs left there."
  else
    report::add scratch-free ok "${free} % free" "${least_free} % or more"
  fi
}

# As whoever runs the scan. Only root can tell a full disk of others from one that it may not write, so it is only root that writes.
disks::_write() {
  if [[ ! -w "$1" && "${EUID}" != 0 ]]; then
    report::add scratch-write skipped "$2 is not yours to write" "a file can be written"
    return 0
  fi
  local status=0
  # shellcheck disable=SC2016 # expanded by the inner shell
  scan::bounded bash -c 'file="$(mktemp "$1/.trainyard.XXXXXX")" && printf x >"${file}" && sync "${file}"; status=$?; rm -f "${file}"; exit "${status}"' write "$1" || status="$?"
  case "${status}" in
    0) report::add scratch-write ok "a file was written" "a file can be written" ;;
    124) report::no_answer scratch-write "${SCAN_SECONDS}" "a file can be written" "Read dmesg for errors of the NVMe disks." ;;
    *) report::add scratch-write failure "${ANSWER##*: }" "a file can be written" "Read dmesg for errors of the NVMe disks; free space on $2." ;;
  esac
}

# check_mounts: every file system of the environment is mounted, and answers.
disks::check_mounts() {
  local path missing=() silent=() status
  local -a paths
  mapfile -t paths < <(jq -r '.mounts[].path' "${TRAINYARD_SETTINGS}" 2>/dev/null)
  if ((${#paths[@]} == 0)); then
    report::add file-systems skipped "not looked for" "settings.json names none"
    return 0
  fi
  for path in "${paths[@]}"; do
    status=0
    scan::bounded mountpoint -q "${TRAINYARD_ROOT}${path}" || status="$?"
    case "${status}" in
      0) ;;
      124) silent+=("${path}") ;;
      *) missing+=("${path}") ;;
    esac
  done
  if ((${#missing[@]})); then
    report::add file-systems failure "not mounted: ${missing[*]}" "${paths[*]}" "sudo mount -a on the node; the security groups must let it reach the file system."
  elif ((${#silent[@]})); then
    report::no_answer file-systems "${SCAN_SECONDS}" "${paths[*]}" "${silent[*]} does not answer: look at the file system's state in FSx."
  else
    report::add file-systems ok "${paths[*]}" "${paths[*]}"
  fi
}
