# Shared by megatron-prepare.sbatch and megatron-convert.sbatch: one process on one node, and a result that is complete or absent.
# shellcheck source=cluster_assets/jobs/lib/job.sh
. "${TRAINYARD_JOBS}/lib/job.sh"

# Overridable.
MEGATRON="${MEGATRON:-/workspace/Megatron-LM}"
PYTHON="${PYTHON:-python3}"

FOLDER=""

megatron::name() {
  [[ "$1" =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$ ]] ||
    job::usage_error "--name '$1': letters, digits, '.', '_' and '-', at most 80, beginning with a letter or a digit"
}

megatron::readable() {
  [[ -n "$2" && -r "$2" ]] || job::usage_error "$1 '$2': give a file or folder that exists and that you may read"
}

# new_folder KIND FOLDER/NAME: set FOLDER, below the environment's folder for KIND, which must not exist.
megatron::new_folder() {
  local -r base="$(job::settings '.folders[$kind]' --arg kind "$1")"
  [[ -n "${base}" ]] || job::usage_error "the environment has no folder for $1: it has no shared file system, or ${TRAINYARD_SETTINGS} is not on this node"
  FOLDER="$(job::own_folder "${base}" "${2%/*}")/${2##*/}"
  [[ ! -e "${FOLDER}" ]] || job::usage_error "${FOLDER} exists and is kept: give another --name, or remove it"
}

# cpu_queue: without --queue, the first one without GPUs, if there is one.
megatron::cpu_queue() {
  [[ -z "${QUEUE}" && -z "${SLURM_JOB_ID:-}" ]] || return 0
  # shellcheck disable=SC2034 # read by job.sh
  QUEUE="$(job::settings '[.queues[] | select(all(.compute[].instances[]; .gpus == 0)) | .name] | first')"
}

# prepare: create the hidden folder WORK next to FOLDER, which goes with the job.
megatron::prepare() {
  WORK="${FOLDER%/*}/.preparing-${SLURM_JOB_ID}"
  # A requeued job finds what its first start left behind.
  job::remove_own "${WORK}" "${WORK##*/}"
  mkdir -- "${WORK}" || log::fail "cannot create ${WORK}: is there space, and may you write there?"
  trap 'job::remove_own "${WORK}" "${WORK##*/}"' EXIT
}

# publish PATH: rename a complete result to FOLDER.
megatron::publish() {
  mv -T --no-clobber -- "$1" "${FOLDER}"
  [[ ! -e "$1" ]] || log::fail "${FOLDER} was created meanwhile and not overwritten: give another --name, or remove it"
}

# run PROGRAM [ARGUMENT...]: a Python program in the image, on one node with all its CPUs.
megatron::run() {
  export PYTHONPATH="${MEGATRON}${PYTHONPATH:+:${PYTHONPATH}}"
  job::keep_environment PYTHONPATH
  "${SRUN[@]}" --nodes=1 --ntasks=1 "--cpus-per-task=${SLURM_CPUS_ON_NODE}" "${CONTAINER[@]}" "${PYTHON}" "$@"
}
