# Shared by the jobs that take a part of one node: their GPUs and CPUs, and web servers behind a Unix socket.
# shellcheck source=cluster_assets/jobs/lib/distributed.sh
declare -F distributed::check >/dev/null || . "${TRAINYARD_JOBS}/lib/distributed.sh"

: "${SHARE_GPUS:=}" "${SHARE_CPUS:=}"
readonly SERVER_LIMIT=300 # seconds until a server must answer

# check LEAST [GPUS]: the options; a job has LEAST GPUs or more, and GPUS without --gpus. Sets JOB_SBATCH at the submission.
sharing::check() {
  job::number --gpus "${SHARE_GPUS}" "$1" 16
  job::number --cpus "${SHARE_CPUS}" 1 1024
  [[ "${NODES:-1}" == 1 ]] || job::usage_error "--nodes '${NODES}': this job takes a part of one node; leave --nodes out"
  if [[ -n "${SLURM_JOB_ID:-}" && "$0" == */slurm_script ]]; then
    [[ -z "${SHARE_GPUS}" || "${SHARE_GPUS}" == "${SLURM_GPUS_ON_NODE:-0}" ]] ||
      log::fail "--gpus ${SHARE_GPUS}, but Slurm gave this job ${SLURM_GPUS_ON_NODE:-0}: start the file itself, or sbatch --gpus=${SHARE_GPUS} ${JOB_NAME}"
    return 0
  fi
  SHARE_GPUS="${SHARE_GPUS:-${2:-$1}}"
  sharing::check_queue
  # Slurm adds each GPU's share of the CPUs, and each CPU's share of the memory (DefCpuPerGPU and DefMemPerCPU).
  JOB_SBATCH=(--nodes=1 --ntasks=1)
  ((SHARE_GPUS == 0)) || JOB_SBATCH+=("--gpus=${SHARE_GPUS}")
  [[ -z "${SHARE_CPUS}" ]] || JOB_SBATCH+=("--cpus-per-task=${SHARE_CPUS}")
}

# check_queue: refuse a queue that gives whole nodes, and warn where memory is not divided. Sets QUEUE, if it is empty, to the default.
sharing::check_queue() {
  command -v scontrol >/dev/null || return 0
  local partitions own shared
  partitions="$(scontrol show partition --oneliner)"
  QUEUE="${QUEUE:-$(sed -n '/ Default=YES/s/^PartitionName=\([^ ]*\) .*/\1/p' <<<"${partitions}")}"
  own="$(awk -v name="PartitionName=${QUEUE}" '$1 == name' <<<"${partitions}")"
  if [[ "${own}" == *OverSubscribe=EXCLUSIVE* ]]; then
    shared="$(sed -n '/OverSubscribe=EXCLUSIVE/!s/^PartitionName=\([^ ]*\) .*/\1/p' <<<"${partitions}" | tr '\n' ' ')"
    job::usage_error "queue '${QUEUE}' gives each job whole nodes: give --queue one of: ${shared:-(none; set exclusive: false for a queue in the environment file)}"
  fi
  # No pipe: grep -q ends at the line, then SIGPIPE ends scontrol, and pipefail makes that a failure.
  grep -q '^SelectTypeParameters.*MEMORY' <<<"$(scontrol show config)" ||
    log::warn "cluster.slurm.memory_scheduling is off: jobs of one node can take each other's memory"
}

# server_folder: set SERVER_DIR, a folder on the node that only this user can open, also in the container; removed at the end.
sharing::server_folder() {
  SERVER_DIR="$(mktemp -d "/tmp/${SLURM_JOB_NAME}-${SLURM_JOB_ID}.XXXXXX")"
  trap 'rm -rf --one-file-system -- "${SERVER_DIR}"' EXIT
  trap 'exit 143' TERM
  MOUNTS="${MOUNTS:+${MOUNTS},}${SERVER_DIR}:${SERVER_DIR}"
  job::srun_options
}

# serve PORT PATH COMMAND...: run a web server that listens on SERVER_DIR/socket, and print how to reach it from a laptop. A TCP port would
# be open to every user of the node; this socket is in a folder of its own user. PATH goes behind the address.
sharing::serve() {
  local -r port="$1" path="$2" name="${SLURM_JOB_NAME}-${SLURM_JOB_ID}"
  local -r link="${HOME}/.trainyard-${name}" begun="${SECONDS}"
  local environment pid status=0
  shift 2
  "${SRUN[@]}" --ntasks=1 "--cpus-per-task=${SLURM_CPUS_ON_NODE}" "${CONTAINER[@]}" "$@" &
  pid=$!
  while [[ ! -S "${SERVER_DIR}/socket" ]]; do
    kill -0 "${pid}" 2>/dev/null || log::fail "the server ended before it answered; its output is above. Give --image an image that has it, or --python PATH"
    ((SECONDS - begun < SERVER_LIMIT)) || log::fail "the server made no socket within ${SERVER_LIMIT} s; its output is above"
    sleep 1
  done
  environment="$(job::settings .environment)"
  (umask 077 && printf 'http://localhost:%s/%s\n' "${port}" "${path}" >"${link}.url")
  trap 'rm -rf --one-file-system -- "${SERVER_DIR}" "${link}.url" "${link}.sock"' EXIT
  printf '%s\n' "On your computer, run this and leave it open:" "" \
    "  ssh -t -F ~/.ssh/trainyard/${environment:-ENV}.conf -L ${port}:${link}.sock ${environment:-ENV} ssh -N -o ExitOnForwardFailure=yes -o StreamLocalBindUnlink=yes -L ${link}.sock:${SERVER_DIR}/socket $(hostname)" "" \
    "Then open the address that this prints on the cluster:  cat ${link}.url" \
    "End it:  scancel ${SLURM_JOB_ID}"
  wait "${pid}" || status=$?
  ((status == 0)) || log::fail "the server ended with status ${status}; its output is above"
}
