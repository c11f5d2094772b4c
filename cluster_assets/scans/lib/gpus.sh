# GPUs as nvidia-smi reports them, queried once. Needs scan.sh and node.sh.

readonly GPU_FIELDS=index,name,driver_version,persistence_mode,ecc.errors.uncorrected.volatile.total,remapped_rows.failure

gpus::check() {
  local wanted="1 or more" rows=() off=() bad=() driver="" model="" row index name persistence errors remap verdict=ok text
  if [[ "${INSTANCE_KNOWN}" == yes ]]; then
    wanted="${INSTANCE_GPUS}"
    if ((INSTANCE_GPUS == 0)); then
      report::add gpus skipped "not checked" "none on ${INSTANCE_TYPE}"
      return 0
    fi
  fi
  scan::run nvidia-smi "--query-gpu=${GPU_FIELDS}" --format=csv,noheader,nounits
  case "${STATUS}" in
    0) ;;
    124) report::timeout gpus "${wanted}" "Read dmesg for 'NVRM: Xid'; if nvidia-smi still hangs, have the node replaced." ;;
    127) report::add gpus failure "no nvidia-smi" "${wanted}" "Install the NVIDIA driver: use an official ParallelCluster AMI, or add it to yours." ;;
    *) report::add gpus failure "nvidia-smi: ${ANSWER%%$'\n'*}" "${wanted}" "Read dmesg for 'NVRM'; restart the node, and have it replaced if that does not help." ;;
  esac
  ((STATUS == 0)) || return 0
  mapfile -t rows <<<"${ANSWER}"
  for row in "${rows[@]}"; do
    IFS=, read -r index name driver persistence errors remap <<<"${row//, /,}"
    model="${model:-${name}}"
    [[ "${persistence}" == Enabled ]] || off+=("${index}")
    if [[ "${errors}" =~ ^[0-9]+$ ]] && ((errors > 0)); then
      bad+=("GPU ${index}: ${errors} uncorrected")
    elif [[ "${remap}" == Yes ]]; then
      bad+=("GPU ${index}: row remapping failed")
    fi
  done
  gpus::report_count "${#rows[@]}" "${model}"
  minimums::compare nvidia-driver "${driver}"
  text=on
  ((${#off[@]} == 0)) || verdict=warning text="off on GPU ${off[*]}"
  report::add gpu-persistence "${verdict}" "${text}" on \
    "sudo systemctl restart nvidia-persistenced; without it each job waits for the driver to load."
  printf -v text '%s, ' "${bad[@]:-no uncorrected errors}"
  report::require gpu-memory "${text%, }" "no uncorrected errors" "Restart the node; if row remapping failed, have it replaced." "${#bad[@]}" = 0
}

gpus::report_count() {
  local -r found="$1 x $2" wanted="${INSTANCE_GPUS} x ${INSTANCE_GPU}"
  if [[ "${INSTANCE_KNOWN}" != yes ]]; then
    report::add gpus ok "${found}" "1 or more"
  elif (($1 != INSTANCE_GPUS)); then
    report::add gpus failure "${found}" "${wanted}" "A missing GPU fell off the bus: read dmesg for 'Xid 79', and have the node replaced."
  elif [[ "$2" != *"${INSTANCE_GPU}"* ]]; then
    report::add gpus warning "${found}" "${wanted}" "Is this ${INSTANCE_TYPE}? Correct the queue's instance types."
  else
    report::add gpus ok "${found}" "${wanted}"
  fi
}

# check_fabric_manager: with NVSwitch, CUDA programs fail until the fabric manager has configured the switches.
gpus::check_fabric_manager() {
  local -r action="sudo systemctl restart nvidia-fabricmanager, then journalctl -u nvidia-fabricmanager: its version must be the driver's."
  if [[ "${INSTANCE_NVSWITCH}" != true ]]; then
    report::add fabric-manager skipped "not checked" "not needed on ${INSTANCE_TYPE:-this instance type}"
    return 0
  fi
  scan::run systemctl is-active nvidia-fabricmanager
  if ((STATUS == 124)); then
    report::timeout fabric-manager active "${action}"
  else
    report::require fabric-manager "${ANSWER:-inactive}" active "${action}" "${STATUS}" = 0
  fi
}
