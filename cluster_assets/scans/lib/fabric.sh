# EFA: the interfaces, the installer's version, libfabric's provider, NCCL's plugin. Needs scan.sh and the variables of node.sh.

# skips NAME: report a check as skipped on an instance type without EFA.
fabric::skips() {
  [[ "${INSTANCE_KNOWN}" == yes ]] && ((INSTANCE_EFA == 0)) || return 1
  report::add "$1" skipped "not checked" "EFA is off"
}

# check_devices: one device file per interface, which programs in containers open too.
fabric::check_devices() {
  if [[ "${INSTANCE_KNOWN}" != yes ]] || ((INSTANCE_EFA == 0)); then
    report::add efa-interfaces skipped "not checked" "EFA is off, or the instance type unknown"
    return 0
  fi
  local -r found="$(fabric::count_devices)"
  report::require efa-interfaces "${found}" "${INSTANCE_EFA}" \
    "See modinfo efa and dmesg; Efa must be enabled for the compute resource. Have the node replaced if only some are missing." \
    "${found}" = "${INSTANCE_EFA}"
}

# count_devices: device files of the driver efa. A p6-b200.48xlarge has two more, of mlx5: its board's NVLink controllers
# (aws/sagemaker-hyperpod-cli#282, ofiwg/libfabric#12708).
fabric::count_devices() {
  local path
  local -a drivers=()
  for path in "${TRAINYARD_ROOT}"/sys/class/infiniband_verbs/uverbs*; do
    [[ ! -e "${TRAINYARD_ROOT}/dev/infiniband/${path##*/}" ]] || drivers+=("${path}/device/driver")
  done
  readlink -f "${drivers[@]}" 2>/dev/null | grep -c '/efa$' || true
}

fabric::check_installer() {
  ! fabric::skips efa-installer || return 0
  local -r file="${TRAINYARD_ROOT}/opt/amazon/efa_installed_packages"
  local text=""
  [[ ! -r "${file}" ]] || text="$(grep -m1 -i 'EFA installer version' "${file}" || true)"
  minimums::compare efa-installer "${text:-no ${file}}"
}

# check_provider: libfabric's own view, with reliable datagrams as NCCL's plugin uses them.
fabric::check_provider() {
  ! fabric::skips efa-provider || return 0
  local -r least="$((INSTANCE_EFA > 0 ? INSTANCE_EFA : 1))"
  local wanted="${INSTANCE_EFA} of provider efa" domains
  ((INSTANCE_EFA)) || wanted="1 or more of provider efa"
  local -r action="fi_info -p efa -t FI_EP_RDM shows the error; in a container mount /dev/infiniband and lift the limit on locked memory."
  scan::run fi_info -p efa -t FI_EP_RDM
  case "${STATUS}" in
    124) report::timeout efa-provider "${wanted}" "${action}" ;;
    127) report::add efa-provider failure "no fi_info" "${wanted}" "Install the EFA installer's libfabric." ;;
    0)
      domains="$(awk '/domain:/ { print $2 }' <<<"${ANSWER}" | sort -u | wc -l)"
      report::require efa-provider "${domains} of provider efa" "${wanted}" "${action}" "${domains}" -ge "${least}"
      ;;
    *) report::add efa-provider failure "fi_info: ${ANSWER%%$'\n'*}" "${wanted}" "${action}" ;;
  esac
}

fabric::check_libfabric() {
  scan::run fi_info --version
  if ((STATUS)); then
    minimums::compare libfabric "no fi_info"
  else
    minimums::compare libfabric "$(grep -m1 -i '^libfabric:' <<<"${ANSWER}" || printf '%s' "${ANSWER}")"
  fi
}

# check_plugin: aws-ofi-nccl; the library contains its version.
fabric::check_plugin() {
  ! fabric::skips aws-ofi-nccl || return 0
  local folder file
  local -a paths
  IFS=: read -r -a paths <<<"${LD_LIBRARY_PATH:-}"
  for folder in /opt/amazon/ofi-nccl/lib{,64,/x86_64-linux-gnu,/aarch64-linux-gnu} /opt/aws-ofi-nccl/{lib,install/lib} "${paths[@]}"; do
    for file in "${TRAINYARD_ROOT}${folder}"/libnccl-net{-ofi,}.so; do
      if [[ -n "${folder}" && -r "${file}" ]]; then
        minimums::compare aws-ofi-nccl "$(grep -aoE -m1 'aws-ofi-nccl [0-9]+(\.[0-9]+)+' "${file}" | head -n 1 || true)"
        return 0
      fi
    done
  done
  minimums::compare aws-ofi-nccl "no libnccl-net.so"
}
