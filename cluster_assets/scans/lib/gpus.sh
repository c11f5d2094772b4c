# shellcheck shell=bash
# GPUs as nvidia-smi sees them, asked once. Needs scan.sh, and what instance::load sets.

readonly GPU_FIELDS=index,name,driver_version,persistence_mode,ecc.errors.uncorrected.volatile.total,remapped_rows.failure
GPU_ROWS=() GPU_STATUS=0 GPU_ANSWER=""

gpus::ask() {
  scan::bounded nvidia-smi "--query-gpu=${GPU_FIELDS}" --format=csv,noheader,nounits || GPU_STATUS="$?"
  GPU_ANSWER="${ANSWER%%$'\n'*}"
  ((GPU_STATUS)) || mapfile -t GPU_ROWS <<<"${ANSWER}"
}

# field ROW NUMBER: counted from 1.
gpus::field() {
  local -a values
  IFS=, read -r -a values <<<"$1"
  local value="${values[$2 - 1]:-}"
  value="${value#"${value%%[![:space:]]*}"}"
  printf '%s' "${value%"${value##*[![:space:]]}"}"
}

# check: all lines on GPUs.
gpus::check() {
  local wanted="1 or more"
  if [[ "${INSTANCE_KNOWN}" == yes ]]; then
    wanted="${INSTANCE_GPUS}"
    if ((INSTANCE_GPUS == 0)); then
      report::add gpus skipped "not looked for" "none on ${INSTANCE_TYPE}"
      return 0
    fi
  fi
  gpus::ask
  case "${GPU_STATUS}" in
    0) ;;
    124)
      report::no_answer gpus "${SCAN_SECONDS}" "${wanted}" "Read dmesg for 'NVRM: Xid'; if nvidia-smi goes on hanging, have the node replaced."
      return 0
      ;;
    127)
      report::add gpus failure "no nvidia-smi" "${wanted}" "Install the NVIDIA driver: use an official ParallelCluster AMI, or add it to yours."
      return 0
      ;;
    *)
      report::add gpus failure "nvidia-smi: ${GPU_ANSWER}" "${wanted}" "Read dmesg for 'NVRM'; restart the node, and have it replaced if that does not help."
      return 0
      ;;
  esac
  gpus::_count "${wanted}"
  minimums::compare nvidia-driver nvidia-driver "$(gpus::field "${GPU_ROWS[0]}" 3)"
  gpus::_persistence
  gpus::_memory
}

gpus::_count() {
  local -r model="$(gpus::field "${GPU_ROWS[0]}" 2)" number="${#GPU_ROWS[@]}"
  local -r action="A GPU that is missing fell off the bus: read dmesg for 'Xid 79', and have the node replaced."
  if [[ "${INSTANCE_KNOWN}" != yes ]]; then
    report::add gpus ok "${number} x ${model}" "$1"
  elif ((number != INSTANCE_GPUS)); then
    report::add gpus failure "${number} x ${model}" "${INSTANCE_GPUS} x ${INSTANCE_GPU}" "${action}"
  elif [[ "${model}" != *"${INSTANCE_GPU}"* ]]; then
    report::add gpus warning "${number} x ${model}" "${INSTANCE_GPUS} x ${INSTANCE_GPU}" "Is this ${INSTANCE_TYPE}? Correct the queue's instance types."
  else
    report::add gpus ok "${number} x ${model}" "${INSTANCE_GPUS} x ${INSTANCE_GPU}"
  fi
}

gpus::_persistence() {
  local row off=()
  for row in "${GPU_ROWS[@]}"; do
    [[ "$(gpus::field "${row}" 4)" == Enabled ]] || off+=("$(gpus::field "${row}" 1)")
  done
  if ((${#off[@]})); then
    report::add gpu-persistence warning "off on GPU ${off[*]}" on "sudo systemctl restart nvidia-persistenced; without it each job waits for the driver to load."
  else
    report::add gpu-persistence ok on on
  fi
}

gpus::_memory() {
  local row errors bad=()
  for row in "${GPU_ROWS[@]}"; do
    errors="$(gpus::field "${row}" 5)"
    if [[ "${errors}" =~ ^[0-9]+$ ]] && ((errors > 0)); then
      bad+=("GPU $(gpus::field "${row}" 1): ${errors} uncorrected")
    elif [[ "$(gpus::field "${row}" 6)" == Yes ]]; then
      bad+=("GPU $(gpus::field "${row}" 1): row remapping failed")
    fi
  done
  if ((${#bad[@]})); then
    local text
    printf -v text '%s, ' "${bad[@]}"
    report::add gpu-memory failure "${text%, }" "no uncorrected errors" "Restart the node; if row remapping failed, have it replaced."
  else
    report::add gpu-memory ok "no uncorrected errors" "no uncorrected errors"
  fi
}

# check_fabric_manager: with NVSwitch, no CUDA program starts before the fabric manager has set up the switches.
gpus::check_fabric_manager() {
  if [[ "${INSTANCE_NVSWITCH}" != true ]]; then
    report::add fabric-manager skipped "not looked for" "not needed on ${INSTANCE_TYPE:-this instance type}"
    return 0
  fi
  local -r action="sudo systemctl restart nvidia-fabricmanager, then journalctl -u nvidia-fabricmanager: its version must be the driver's."
  local status=0
  scan::bounded systemctl is-active nvidia-fabricmanager || status="$?"
  if ((status == 124)); then
    report::no_answer fabric-manager "${SCAN_SECONDS}" active "${action}"
  elif ((status == 0)); then
    report::add fabric-manager ok active active
  else
    report::add fabric-manager failure "${ANSWER:-inactive}" active "${action}"
  fi
}
