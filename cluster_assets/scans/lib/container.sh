# The contents of an image. Needs scan.sh, fabric.sh and software.sh.

declare -A PYTHON_FOUND=()

# ask_python: run probe_container.py; a missing Python is one line of the report.
container::ask_python() {
  local -r wanted="python3 for the training program"
  # shellcheck disable=SC2034 # read by scan::run
  local name value SCAN_SECONDS="${SCAN_PYTHON_SECONDS}"
  scan::run python3 -W ignore "${SCANS}/lib/probe_container.py"
  while IFS="=" read -r name value; do
    [[ ! "${name}" =~ ^[a-z]+$ ]] || PYTHON_FOUND["${name}"]="${value}"
  done <<<"${ANSWER}"
  case "${STATUS}" in
    0) report::add python ok "${PYTHON_FOUND[python]:-}" "${wanted}" ;;
    124) report::timeout python "${wanted}" "Importing torch hangs: check the file system of the image." ;;
    *) report::add python failure "${ANSWER##*$'\n'}" "${wanted}" "Install Python and PyTorch in the image." ;;
  esac
}

# check_version NAME COMPONENT: of what Python found.
container::check_version() {
  local -r text="${PYTHON_FOUND[$2]:-}"
  if [[ "${text}" == "!"* ]]; then
    report::add "$1" failure "does not work: ${text#!}" "$(minimums::get "components.$1.minimum") or later" "$(minimums::get "components.$1.action")"
  else
    minimums::compare "$1" "${text:-not found}"
  fi
}

# check_optional NAME WHAT: a framework that only some jobs use.
container::check_optional() {
  local -r text="${PYTHON_FOUND[$1]:-}"
  case "${text}" in
    "") report::add "$1" skipped "not found" "only for jobs with $2" ;;
    "!"*) report::add "$1" failure "does not work: ${text#!}" "importable" "Install it for this image's PyTorch and CUDA." ;;
    *) report::add "$1" ok "${text}" "importable" ;;
  esac
}

# check_cuda: PyTorch's version, or the toolkit's without PyTorch.
container::check_cuda() {
  local text="${PYTHON_FOUND[cuda]:-}"
  if [[ -z "${text}" ]]; then
    scan::run nvcc --version
    ((STATUS)) || text="$(grep -oE 'release [0-9.]+' <<<"${ANSWER}" || true)"
  fi
  minimums::compare cuda "${text:-not found}"
}

# check_gpus WANTED
container::check_gpus() {
  local -r found="${PYTHON_FOUND[gpus]:-}" wanted="$1 or more"
  if [[ "$1" == 0 ]]; then
    report::add gpus skipped "not checked" "none"
  elif [[ "${found}" =~ ^[0-9]+$ ]] && ((found >= $1)); then
    report::add gpus ok "${found}" "${wanted}"
  else
    report::add gpus failure "${found:-PyTorch sees none}" "${wanted}" \
      "Start the container with Pyxis on a node with GPUs; NVIDIA_VISIBLE_DEVICES must not be 'void'. The driver must support the image's CUDA."
  fi
}

container::check_devices() {
  local -r found="$(fabric::count_devices)"
  report::require efa-devices "${found}" "1 or more" \
    "Mount /dev/infiniband into the container: --container-mounts=/dev/infiniband:/dev/infiniband" "${found}" -gt 0
}

# check_settings: variables that once helped and now harm; NCCL and the plugin choose better values.
container::check_settings() {
  local name verdict=ok bad=()
  for name in NCCL_ALGO NCCL_PROTO NCCL_TREE_THRESHOLD NCCL_IB_DISABLE NCCL_NET_GDR_LEVEL NCCL_P2P_LEVEL NCCL_MIN_NCHANNELS NCCL_IFNAME \
    FI_EFA_FORK_SAFE FI_EFA_USE_DEVICE_RDMA; do
    [[ -z "${!name:-}" ]] || bad+=("${name}")
  done
  # Names of interfaces differ between instance types: only exclusions are allowed.
  [[ -z "${NCCL_SOCKET_IFNAME:-}" || "${NCCL_SOCKET_IFNAME}" == ^* ]] || bad+=(NCCL_SOCKET_IFNAME)
  ((${#bad[@]} == 0)) || verdict=warning
  report::add nccl-settings "${verdict}" "${bad[*]:-none}" "none that harm" "Leave them unset, in the image (ENV) too."
}
