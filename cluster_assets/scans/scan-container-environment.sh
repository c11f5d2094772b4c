#!/usr/bin/env bash
# scan-container-environment.sh: checks whether the image that it runs in has what distributed training needs.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib/scan.sh"
. "${SCANS}/lib/fabric.sh"
. "${SCANS}/lib/software.sh"
. "${SCANS}/lib/container.sh"

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
