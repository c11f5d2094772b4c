# shellcheck shell=bash
# EFA: the interfaces, the installer's version, libfabric's provider, NCCL's plugin. Needs scan.sh, and what instance::load sets.

# check_devices: a device node of the kernel for each interface; programs in containers open these very files.
fabric::check_devices() {
  if [[ "${INSTANCE_KNOWN}" != yes ]] || ((INSTANCE_EFA == 0)); then
    report::add efa-interfaces skipped "not looked for" "EFA is off, or the instance type unknown"
    return 0
  fi
  local -a devices
  mapfile -t devices < <(compgen -G "${TRAINYARD_ROOT}/dev/infiniband/uverbs*")
  if ((${#devices[@]} == INSTANCE_EFA)); then
    report::add efa-interfaces ok "${#devices[@]}" "${INSTANCE_EFA}"
  else
    report::add efa-interfaces failure "${#devices[@]}" "${INSTANCE_EFA}" \
      "modinfo efa and dmesg say why; Efa must be enabled for the compute resource. Have the node replaced if only some are missing."
  fi
}

fabric::check_installer() {
  if [[ "${INSTANCE_KNOWN}" == yes ]] && ((INSTANCE_EFA == 0)); then
    report::add efa-installer skipped "not looked for" "EFA is off"
    return 0
  fi
  local -r file="${TRAINYARD_ROOT}/opt/amazon/efa_installed_packages"
  local text=""
  [[ ! -r "${file}" ]] || text="$(grep -m1 -i 'EFA installer version' "${file}" || true)"
  minimums::compare efa-installer efa-installer "${text:-no ${file}}"
}

# check_provider: libfabric's own view, with reliable datagrams, which NCCL's plugin uses.
fabric::check_provider() {
  local wanted="${INSTANCE_EFA} of provider efa"
  if [[ "${INSTANCE_KNOWN}" == yes ]] && ((INSTANCE_EFA == 0)); then
    report::add efa-provider skipped "not looked for" "EFA is off"
    return 0
  fi
  ((INSTANCE_EFA)) || wanted="1 or more of provider efa"
  local -r action="fi_info -p efa -t FI_EP_RDM shows the error; in a container mount /dev/infiniband and lift the limit on locked memory."
  local status=0 domains
  scan::bounded fi_info -p efa -t FI_EP_RDM || status="$?"
  case "${status}" in
    124) report::no_answer efa-provider "${SCAN_SECONDS}" "${wanted}" "${action}" ;;
    127) report::add efa-provider failure "no fi_info" "${wanted}" "Install the EFA installer's libfabric." ;;
    0)
      domains="$(awk '/domain:/ { print $2 }' <<<"${ANSWER}" | sort -u | wc -l)"
      if ((domains >= (INSTANCE_EFA > 0 ? INSTANCE_EFA : 1))); then
        report::add efa-provider ok "${domains} of provider efa" "${wanted}"
      else
        report::add efa-provider failure "${domains} of provider efa" "${wanted}" "${action}"
      fi
      ;;
    *) report::add efa-provider failure "fi_info: ${ANSWER%%$'\n'*}" "${wanted}" "${action}" ;;
  esac
}

fabric::check_libfabric() {
  local status=0
  scan::bounded fi_info --version || status="$?"
  if ((status)); then
    minimums::compare libfabric libfabric "no fi_info"
  else
    minimums::compare libfabric libfabric "$(grep -m1 -i '^libfabric:' <<<"${ANSWER}" || printf '%s' "${ANSWER}")"
  fi
}

# check_plugin: aws-ofi-nccl; its version stands in the library itself.
fabric::check_plugin() {
  if [[ "${INSTANCE_KNOWN:-no}" == yes ]] && ((INSTANCE_EFA == 0)); then
    report::add aws-ofi-nccl skipped "not looked for" "EFA is off"
    return 0
  fi
  local folder file
  local -a folders=(/opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib64 /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu
    /opt/amazon/ofi-nccl/lib/aarch64-linux-gnu /opt/aws-ofi-nccl/lib /opt/aws-ofi-nccl/install/lib)
  local -a paths
  IFS=: read -r -a paths <<<"${LD_LIBRARY_PATH:-}"
  for folder in "${folders[@]}" "${paths[@]}"; do
    for file in "${TRAINYARD_ROOT}${folder}"/libnccl-net{-ofi,}.so; do
      if [[ -n "${folder}" && -r "${file}" ]]; then
        minimums::compare aws-ofi-nccl aws-ofi-nccl "$(grep -aoE -m1 'aws-ofi-nccl [0-9]+(\.[0-9]+)+' "${file}" | head -n 1 || true)"
        return 0
      fi
    done
  done
  minimums::compare aws-ofi-nccl aws-ofi-nccl "no libnccl-net.so"
}
