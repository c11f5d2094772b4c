# shellcheck shell=bash
# Distributed programs: the rendezvous, NCCL's and EFA's settings, and one launcher a node. The one place for all three.

# Overridable.
PROCS="${PROCS:-}"                 # processes a node; empty: one a GPU, or one on a node without
RENDEZVOUS="${RENDEZVOUS:-static}" # static: ranks in the order of Slurm's nodes; c10d: in the order of host names
NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
PYTHON="${PYTHON:-python3}"                # of the container, or of the host
THREADS="${THREADS:-${OMP_NUM_THREADS:-}}" # CPU threads a process; empty: the node's CPUs shared out

# What a program finds in its environment, and what wins over an image's own.
readonly DISTRIBUTED_VARIABLES=(MASTER_ADDR MASTER_PORT NNODES NPROC_PER_NODE RENDEZVOUS RENDEZVOUS_ID OMP_NUM_THREADS PYTHON
  NCCL_DEBUG NCCL_NET NCCL_SOCKET_IFNAME FI_PROVIDER)

# Nearly nothing: since 1.9 the plugin aws-ofi-nccl sets what it needs, better than a script can.
distributed::nccl() {
  export NCCL_DEBUG
  # Leave out what never leads to another node; P5 and others name the rest differently, so none is pinned.
  export NCCL_SOCKET_IFNAME="^docker,lo,veth"
  if job::has_efa; then
    # Without the plugin NCCL would go to TCP in silence, at a tenth of the speed. Named, it is an error.
    export NCCL_NET=OFI FI_PROVIDER=efa
  fi
}

# The address of the job's first node, and a port that two jobs on one node are unlikely to share. Below the ports that Linux hands out.
distributed::rendezvous() {
  local first
  first="$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1)"
  MASTER_ADDR="$(getent ahostsv4 "${first}" | awk 'NR == 1 { print $1 }')"
  [[ -n "${MASTER_ADDR}" ]] || job::fail "the name ${first} of the job's first node has no address on ${HOSTNAME}"
  MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
  NNODES="${SLURM_JOB_NUM_NODES}"
  # A node of an earlier run of this job that is late must not join.
  RENDEZVOUS_ID="${SLURM_JOB_ID}.${SLURM_RESTART_COUNT:-0}"
  export MASTER_ADDR MASTER_PORT NNODES RENDEZVOUS RENDEZVOUS_ID
}

distributed::option() {
  case "$1" in
    --procs)
      job::number --procs "${2:-}" 1 64
      PROCS="$2"
      ;;
    --rendezvous)
      [[ "${2:-}" =~ ^(static|c10d)$ ]] || job::usage_error "--rendezvous '${2:-}': give static or c10d"
      RENDEZVOUS="$2"
      ;;
    --python)
      [[ -n "${2:-}" ]] || job::usage_error "--python wants a command"
      PYTHON="$2"
      ;;
    *) return 1 ;;
  esac
}

distributed::help_options() {
  cat <<'END'

Options of distributed jobs:
  --procs N        PROCS       processes a node (default: one a GPU, or one on a node without)
  --rendezvous R   RENDEZVOUS  static (default: ranks 0-7 on Slurm's first node, 8-15 on the second) or c10d
  --python PATH    PYTHON      Python of the program (default: python3 of the image or the host)
END
}

# prepare: all of the above for this job; DISTRIBUTED_SRUN is the srun that starts one launcher a node.
distributed::prepare() {
  distributed::nccl
  distributed::rendezvous
  NPROC_PER_NODE="${PROCS:-$((GPUS > 0 ? GPUS : 1))}"
  ((GPUS == 0 || NPROC_PER_NODE <= GPUS)) || job::fail "--procs ${NPROC_PER_NODE} on nodes of ${GPUS} GPUs: give ${GPUS} or fewer"
  local -r share=$((SLURM_CPUS_ON_NODE / NPROC_PER_NODE))
  OMP_NUM_THREADS="${THREADS:-$((share > 1 ? share : 1))}"
  export NPROC_PER_NODE OMP_NUM_THREADS PYTHON
  job::keep_environment "${DISTRIBUTED_VARIABLES[@]}" "$@"
  DISTRIBUTED_SRUN=("${SRUN[@]}" --kill-on-bad-exit=1 --ntasks-per-node=1 "--ntasks=${NNODES}" "--cpus-per-task=${SLURM_CPUS_ON_NODE}" "${CONTAINER[@]}")
  job::log "${NNODES} nodes x ${NPROC_PER_NODE} processes, rendezvous ${MASTER_ADDR}:${MASTER_PORT} (${RENDEZVOUS}), ${IMAGE:-on the host}"
}

# launch WORD...: run a program by torchrun on all nodes; returns with its status.
distributed::launch() {
  "${DISTRIBUTED_SRUN[@]}" --label bash "${TRAINYARD_JOBS}/lib/node-launch.sh" "$@"
}
