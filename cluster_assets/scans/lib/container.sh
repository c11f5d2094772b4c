# shellcheck shell=bash
# What an image has. Needs scan.sh.

declare -A PYTHON_FOUND=()

# ask_python: what probe_container.py finds; one line in the report if there is no Python.
container::ask_python() {
  local -r wanted="python3 for the training program"
  local status=0 name value
  SCAN_SECONDS="${SCAN_PYTHON_SECONDS}" scan::bounded python3 -W ignore "${SCANS}/lib/probe_container.py" || status="$?"
  while IFS="=" read -r name value; do
    [[ ! "${name}" =~ ^[a-z]+$ ]] || PYTHON_FOUND["${name}"]="${value}"
  done <<<"${ANSWER}"
  case "${status}" in
    0) report::add python ok "${PYTHON_FOUND[python]:-}" "${wanted}" ;;
    124) report::no_answer python "${SCAN_PYTHON_SECONDS}" "${wanted}" "Importing torch hangs: look at the file system that the image lies on." ;;
    *) report::add python failure "${ANSWER##*$'\n'}" "${wanted}" "Put Python and PyTorch into the image." ;;
  esac
}

# check_version NAME COMPONENT: of what Python found.
container::check_version() {
  local -r text="${PYTHON_FOUND[$2]:-}"
  if [[ "${text}" == "!"* ]]; then
    report::add "$1" failure "does not work: ${text#!}" "$(minimums::get "components.$1.minimum") or later" "$(minimums::get "components.$1.action")"
  else
    minimums::compare "$1" "$1" "${text:-not found}"
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

# check_cuda: PyTorch's, or the toolkit's where there is no PyTorch.
container::check_cuda() {
  local text="${PYTHON_FOUND[cuda]:-}"
  if [[ -z "${text}" ]] && scan::bounded nvcc --version; then
    text="$(grep -oE 'release [0-9.]+' <<<"${ANSWER}" || true)"
  fi
  minimums::compare cuda cuda "${text:-not found}"
}

container::check_gpus() {
  local -r found="${PYTHON_FOUND[gpus]:-}" wanted="$1"
  local -r action="Start the container with Pyxis on a node with GPUs; NVIDIA_VISIBLE_DEVICES must not be 'void'. The driver must suit the image's CUDA."
  if [[ "${wanted}" == 0 ]]; then
    report::add gpus skipped "not looked for" "none"
  elif [[ "${found}" =~ ^[0-9]+$ ]] && ((found >= wanted)); then
    report::add gpus ok "${found}" "${wanted} or more"
  else
    report::add gpus failure "${found:-PyTorch sees none}" "${wanted} or more" "${action}"
  fi
}

container::check_devices() {
  local -a devices
  mapfile -t devices < <(compgen -G "${TRAINYARD_ROOT}/dev/infiniband/uverbs*")
  if ((${#devices[@]})); then
    report::add efa-devices ok "${#devices[@]}" "1 or more"
  else
    report::add efa-devices failure 0 "1 or more" "Mount /dev/infiniband into the container: --container-mounts=/dev/infiniband:/dev/infiniband"
  fi
}

container::check_locked_memory() {
  local -r locked="$(ulimit -l)"
  if [[ "${locked}" == unlimited ]]; then
    report::add locked-memory ok unlimited unlimited
  else
    report::add locked-memory failure "${locked} KiB" unlimited "Start the container by srun on a node that the bootstrap set up."
  fi
}

# check_settings: variables that once helped and harm today. NCCL and the plugin choose better.
container::check_settings() {
  local name verdict bad=()
  for name in NCCL_ALGO NCCL_PROTO NCCL_TREE_THRESHOLD NCCL_IB_DISABLE NCCL_NET_GDR_LEVEL NCCL_P2P_LEVEL NCCL_MIN_NCHANNELS NCCL_IFNAME \
    FI_EFA_FORK_SAFE FI_EFA_USE_DEVICE_RDMA; do
    [[ -z "${!name:-}" ]] || bad+=("${name}")
  done
  # Names of interfaces differ by instance type: only what is left out may be named.
  [[ -z "${NCCL_SOCKET_IFNAME:-}" || "${NCCL_SOCKET_IFNAME}" == ^* ]] || bad+=(NCCL_SOCKET_IFNAME)
  verdict=ok
  ((${#bad[@]} == 0)) || verdict=warning
  report::add nccl-settings "${verdict}" "${bad[*]:-none}" "none that harm" "$([[ "${verdict}" == ok ]] || echo "Leave them unset, in the image (ENV) too.")"
}
