# Distributed programs: the rendezvous, the settings of NCCL and EFA, and one launcher per node.
# shellcheck source=cluster_assets/jobs/lib/job.sh
. "${TRAINYARD_JOBS}/lib/job.sh"

# Overridable.
PROCS="${PROCS:-}"                 # processes per node; empty: one per GPU, or one on a node without GPUs
RENDEZVOUS="${RENDEZVOUS:-static}" # static: ranks in Slurm's order of nodes; c10d: in the order of host names
NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
PYTHON="${PYTHON:-python3}"                # of the container, or of the host
THREADS="${THREADS:-${OMP_NUM_THREADS:-}}" # CPU threads per process; empty: the node's CPUs divided by the processes

# nccl: export the settings of NCCL and EFA; NCCL_NAMES lists them. A variable is added here, and only here. Few are needed: the plugin
# aws-ofi-nccl sets its own since 1.9.
distributed::nccl() {
  # Interfaces are excluded and not chosen, because their names differ between instance types.
  local settings=("NCCL_DEBUG=${NCCL_DEBUG}" "NCCL_SOCKET_IFNAME=^docker,lo,veth")
  # A file for each process; %h and %p are NCCL's.
  [[ -z "${WATCHDOG_DIR:-}" ]] || settings+=("NCCL_DEBUG_FILE=${WATCHDOG_DIR}/nccl/%h.%p")
  # With NCCL_NET=OFI a missing plugin is an error; without it NCCL silently uses TCP at a tenth of the speed. The plugin has this name
  # since 1.13.0 (scans/minimums.json).
  ! job::has_efa || settings+=(NCCL_NET=OFI FI_PROVIDER=efa)
  # shellcheck disable=SC2163 # NAME=VALUE words
  export "${settings[@]}"
  NCCL_NAMES=("${settings[@]%%=*}")
}

# rendezvous: the address of the job's first node, and a port below Linux's ephemeral ports that two jobs on one node are unlikely to share.
distributed::rendezvous() {
  local first
  # Not head: it ends before scontrol has written the names of a large job, which then ends by SIGPIPE.
  first="$(scontrol show hostnames "${SLURM_JOB_NODELIST}")"
  first="${first%%$'\n'*}"
  MASTER_ADDR="$(getent ahostsv4 "${first}" | awk 'NR == 1 { print $1 }')" || MASTER_ADDR=""
  [[ -n "${MASTER_ADDR}" ]] || log::fail "the name ${first} of the job's first node has no address on ${HOSTNAME}"
  MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
  NNODES="${SLURM_JOB_NUM_NODES}"
  # A late node of an earlier run of this job must not join.
  RENDEZVOUS_ID="${SLURM_JOB_ID}.${SLURM_RESTART_COUNT:-0}"
  export MASTER_ADDR MASTER_PORT NNODES RENDEZVOUS RENDEZVOUS_ID
}

distributed::check() {
  job::number --procs "${PROCS}" 1 64
  [[ "${RENDEZVOUS}" =~ ^(static|c10d)$ ]] || job::usage_error "--rendezvous '${RENDEZVOUS}': give static or c10d"
}

distributed::help_options() {
  cat <<'END'

Options of distributed jobs:
  --procs N        PROCS       processes per node (default: one per GPU, or one on a node without GPUs)
  --rendezvous R   RENDEZVOUS  static (default: ranks 0-7 on Slurm's first node, 8-15 on the second) or c10d
  --python PATH    PYTHON      Python of the program (default: python3 of the image or the host)
END
}

# prepare VARIABLE...: set up the job's environment, of which the program gets VARIABLEs too; DISTRIBUTED_SRUN starts one launcher per node.
distributed::prepare() {
  distributed::nccl
  distributed::rendezvous
  NPROC_PER_NODE="${PROCS:-$((GPUS > 0 ? GPUS : 1))}"
  ((GPUS == 0 || NPROC_PER_NODE <= GPUS)) || log::fail "--procs ${NPROC_PER_NODE} on nodes of ${GPUS} GPUs: give ${GPUS} or fewer"
  local -r share=$((SLURM_CPUS_ON_NODE / NPROC_PER_NODE))
  OMP_NUM_THREADS="${THREADS:-$((share > 1 ? share : 1))}"
  export NPROC_PER_NODE OMP_NUM_THREADS PYTHON
  job::keep_environment MASTER_ADDR MASTER_PORT NNODES NPROC_PER_NODE RENDEZVOUS RENDEZVOUS_ID OMP_NUM_THREADS PYTHON HF_HOME "${NCCL_NAMES[@]}" "$@"
  DISTRIBUTED_SRUN=("${SRUN[@]}" --kill-on-bad-exit=1 --ntasks-per-node=1 "--ntasks=${NNODES}" "--cpus-per-task=${SLURM_CPUS_ON_NODE}" "${CONTAINER[@]}")
  log::info "${NNODES} nodes x ${NPROC_PER_NODE} processes, rendezvous ${MASTER_ADDR}:${MASTER_PORT} (${RENDEZVOUS}), ${IMAGE:-on the host}"
}

distributed::launch() {
  "${DISTRIBUTED_SRUN[@]}" --label bash "${TRAINYARD_JOBS}/lib/node-launch.sh" "$@"
}

# The engine that a node, or its container, has. Runs in sh, because a container may have no bash.
readonly DISTRIBUTED_FIND='
if [ "$1" != torch ] && [ -x "$2/all_reduce_perf" ]; then echo nccl-tests
elif [ "$1" != nccl-tests ] && "$3" -c "import torch.distributed as d; assert d.is_$4_available()" 2>/dev/null; then echo torch
fi
'

# engine ENGINE BINARIES BACKEND: prints what measures collectives, nccl-tests or torch; ENGINE is one of them, or auto.
distributed::engine() {
  local found
  found="$("${SRUN[@]}" --nodes=1 --ntasks=1 "${CONTAINER[@]}" sh -c "${DISTRIBUTED_FIND}" engine "$1" "$2" "${PYTHON}" "$3")" ||
    log::fail "srun cannot start a program in ${IMAGE:-the host of ${SLURMD_NODENAME}}, its reason is above"
  [[ -n "${found}" ]] ||
    log::fail "--engine $1 finds nothing to measure with in ${IMAGE:-the host of ${SLURMD_NODENAME}}: neither nccl-tests in $2 (--binaries) nor torch with $3 in ${PYTHON} (--python). Give --image NAME, an image with one of them"
  printf '%s' "${found}"
}
