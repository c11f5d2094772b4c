#!/usr/bin/env bash
# scan-container-environment.sh: run inside an image, does it have what distributed training needs?
# shellcheck source=cluster_assets/scans/lib/scan.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib/scan.sh"
# shellcheck source=cluster_assets/scans/lib/fabric.sh
. "${SCANS}/lib/fabric.sh"
# shellcheck source=cluster_assets/scans/lib/container.sh
. "${SCANS}/lib/container.sh"

# Overridable. The first import of PyTorch from an image on a cold file system takes long.
SCAN_PYTHON_SECONDS="${SCAN_PYTHON_SECONDS:-300}"

image::usage() {
  cat <<END
usage: ${0##*/} [--json] [--gpus N] [--no-efa] [--minimums FILE]

Looks at the image that it runs in: CUDA, NCCL, aws-ofi-nccl, libfabric, PyTorch, Megatron-LM, DeepSpeed, and what the node gives to the
container. What is found, what is wanted, what to do. Changes nothing; needs bash and coreutils, and Python for what Python has.
  --json            for programs; report.schema.json describes it
  --gpus N          GPUs that PyTorch must see (1); 0 where the image is looked at on a machine without any
  --no-efa          EFA's devices are not there, as on a build machine
  --minimums FILE   versions to ask for (${SCAN_MINIMUMS})

Exit code: 0 all is well, 1 warnings, 2 failures, 64 wrong arguments.
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
        (($# > 1)) || scan::wrong "$1 wants a value"
        if [[ "$1" == --minimums ]]; then SCAN_MINIMUMS="$2"; else gpus="$2"; fi
        shift
        ;;
      *) scan::wrong "'$1' is not known; allowed: --json, --gpus, --no-efa, --minimums, --help" ;;
    esac
    shift
  done
  [[ "${gpus}" =~ ^[0-9]{1,3}$ ]] || scan::wrong "--gpus wants a number from 0 to 999, not '${gpus}'"
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
      INSTANCE_KNOWN=no INSTANCE_EFA=0
      container::check_devices
      fabric::check_provider
      container::check_locked_memory
    fi
  fi
  scan::show "${style}" container "container on ${HOSTNAME:-unknown}"
}

image::main "$@"
