#!/usr/bin/env bash
# scan-container-environment.sh: checks whether the image that it runs in has what distributed training needs.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib/scan.sh"
. "${SCANS}/lib/fabric.sh"
. "${SCANS}/lib/software.sh"

# Overridable. The first import of PyTorch from a cold file system is slow.
SCAN_PYTHON_SECONDS="${SCAN_PYTHON_SECONDS:-300}"

image::usage() {
  cat <<END
usage: ${0##*/} [--json] [--gpus N] [--no-efa] [--minimums FILE]

Checks the image that it runs in: CUDA, NCCL, aws-ofi-nccl, libfabric, PyTorch, Megatron-LM, DeepSpeed, and the devices and limits of the
container. Prints what was found, what is wanted and what to do. Changes nothing; needs bash and coreutils, and Python for Python packages.
  --json            for programs; report.schema.json describes it
  --gpus N          GPUs that PyTorch must see (1); 0 on a machine without GPUs
  --no-efa          do not check EFA's devices, for example on a build machine
  --minimums FILE   required versions (${SCAN_MINIMUMS})

Exit code: 0 ok, 1 warnings, 2 failures, 64 wrong arguments.
  srun -N 1 --gpus-per-node=8 --container-image=IMAGE.sqsh --container-mounts=/dev/infiniband,${SCANS%/*}:${SCANS%/*} \\
    ${SCANS}/scan-container-environment.sh --gpus 8
END
}

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

container::check_version() {
  local -r text="${PYTHON_FOUND[$2]:-}"
  if [[ "${text}" == "!"* ]]; then
    report::add "$1" failure "does not work: ${text#!}" "$(minimums::get "components.$1.minimum") or later" "$(minimums::get "components.$1.action")"
  else
    minimums::compare "$1" "${text:-not found}"
  fi
}

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

image::main() {
  local style=table gpus=1 efa=yes
  while (($#)); do
    case "$1" in
      -h | --help) image::usage && exit 0 ;;
      --json) style=json ;;
      --no-efa) efa=no ;;
      --gpus | --minimums)
        (($# > 1)) || scan::wrong "$1 needs a value"
        if [[ "$1" == --minimums ]]; then SCAN_MINIMUMS="$2"; else gpus="$2"; fi
        shift
        ;;
      *) scan::wrong "'$1' is not known; allowed: --json, --gpus, --no-efa, --minimums, --help" ;;
    esac
    shift
  done
  [[ "${gpus}" =~ ^[0-9]{1,3}$ ]] || scan::wrong "--gpus '${gpus}': give a number from 0 to 999"
  INSTANCE_KNOWN=no INSTANCE_EFA=0
  if minimums::readable; then
    container::ask_python
    container::check_version pytorch torch
    container::check_cuda
    container::check_version nccl nccl
    container::check_optional megatron Megatron-LM
    container::check_optional deepspeed DeepSpeed
    fabric::check_plugin
    fabric::check_libfabric
    container::check_settings
    container::check_gpus "${gpus}"
    if [[ "${efa}" == yes ]]; then
      container::check_devices
      fabric::check_provider
      software::check_locked_memory "Start the container by srun on a node that the bootstrap configured."
    fi
  fi
  scan::show "${style}" container "container on ${HOSTNAME:-unknown}"
}

image::main "$@"
