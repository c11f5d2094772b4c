#!/usr/bin/env bash
# scan-host-environment.sh head|compute: checks whether this node has what jobs need.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib/scan.sh"
. "${SCANS}/lib/node.sh"

host::usage() {
  cat <<END
usage: ${0##*/} head|compute [--json] [--instance-type TYPE] [--minimums FILE]

Prints what was found on this node, what is wanted and what to do. Changes nothing.
  head                   Slurm's controller, Enroot, Pyxis, the shared scripts, no GPU
  compute                driver, GPUs, fabric manager, EFA, scratch, limits, Enroot, Pyxis
  --json                 for programs; report.schema.json describes it
  --instance-type TYPE   this node's type, if neither settings.json nor EC2 determines it
  --minimums FILE        required versions (${SCAN_MINIMUMS})

Exit code: 0 ok, 1 warnings, 2 failures, 64 wrong arguments.
On another node:  srun -w NODE scan-host-environment.sh compute
END
}

host::head() {
  minimums::compare_output slurm sinfo --version
  software::check_controller
  minimums::compare_output enroot enroot version
  software::check_pyxis
  software::check_docker
  software::check_no_gpu
  disks::check_mounts
  software::check_scripts
  software::check_limits
}

host::compute() {
  gpus::check
  gpus::check_fabric_manager
  fabric::check_devices
  fabric::check_installer
  fabric::check_provider
  fabric::check_plugin
  disks::check_scratch
  disks::check_mounts
  software::check_limits
  minimums::compare_output slurm sinfo --version
  software::check_daemon
  minimums::compare_output enroot enroot version
  software::check_pyxis
}

host::main() {
  local role="" style=table
  while (($#)); do
    case "$1" in
      -h | --help) host::usage && exit 0 ;;
      --json) style=json ;;
      --instance-type | --minimums)
        (($# > 1)) || scan::wrong "$1 needs a value"
        if [[ "$1" == --minimums ]]; then SCAN_MINIMUMS="$2"; else export TRAINYARD_INSTANCE_TYPE="$2"; fi
        shift
        ;;
      head | compute)
        [[ -z "${role}" ]] || scan::wrong "one role at a time, not '${role}' and '$1'"
        role="$1"
        ;;
      *) scan::wrong "'$1' is not known; allowed: head, compute, --json, --instance-type, --minimums, --help" ;;
    esac
    shift
  done
  [[ -n "${role}" ]] || scan::wrong "give the node's role: head or compute"
  if minimums::readable; then
    node::identify "${role}"
    case "${role}" in
      head) host::head ;;
      compute) host::compute ;;
    esac
  fi
  scan::show "${style}" "${role}" "${role} node ${HOSTNAME}${INSTANCE_TYPE:+, ${INSTANCE_TYPE}}"
}

host::main "$@"
