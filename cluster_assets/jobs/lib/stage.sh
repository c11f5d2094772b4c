# Data sets for jobs: found by name, loaded from S3 to Lustre, copied to the nodes' local disks.

STAGE="${STAGE:-}"
STAGE_LIMIT="${STAGE_LIMIT:-14400}" # seconds for loading, and for copying

# folder NAME DATA: the folder of a data set: a path, or a name in the folder DATA.
stage::folder() {
  local path="$1"
  while [[ "${path}" == */ ]]; do path="${path%/}"; done
  [[ "${path}" =~ ^(/.*/|/)?[A-Za-z0-9][A-Za-z0-9._-]{0,79}$ ]] ||
    job::usage_error "'$1' is not a data set: give its name (letters, digits, '.', '_' and '-', beginning with a letter or a digit) or its path"
  [[ "${path}" == /* ]] && printf '%s' "${path}" || printf '%s' "$2/${path}"
}

# check DATA: before submission. A model's job knows its folder for data only in the job, which checks again.
stage::check() {
  local folder
  [[ -n "${STAGE}" ]] || return 0
  folder="$(stage::folder "${STAGE}" "$1")"
  stage::require "${folder}" "--stage '${STAGE}'"
}

# require FOLDER OPTION
stage::require() {
  [[ -d "$1" ]] || job::usage_error "$2: the folder $1 does not exist. Its parent folder contains: $(find "${1%/*}" -mindepth 1 -maxdepth 1 -type d -printf '%f ' 2>/dev/null)"
}

# data: with --stage, load the data set from S3 (once, here), copy it to each node's scratch, and let DATA_DIR be the copy. A
# copy is of one user and one version: nothing changes under a running job.
stage::data() {
  [[ -n "${STAGE}" && -n "${SLURM_JOB_ID:-}" ]] || return 0
  local folder scratch copy
  local -a program
  folder="$(stage::folder "${STAGE}" "${DATA_DIR}")"
  scratch="$(settings::scratch "${SLURM_JOB_PARTITION}")"
  [[ -n "${scratch}" ]] || log::fail "--stage: the queue ${SLURM_JOB_PARTITION} has no scratch on local disks (cluster.queues[].scratch). Leave --stage out: DATA_DIR is on Lustre"
  program=("$(base::python)" "${TRAINYARD_JOBS}/lib/data_set.py")
  copy="$("${program[@]}" load "${folder}" --limit "${STAGE_LIMIT}")" || log::fail "${folder} is not loaded from S3; the reason is above"
  DATA_DIR="${scratch}/data-$(id -u)/${copy}"
  timeout --kill-after=10 "${STAGE_LIMIT}" "${SRUN[@]}" --mpi=none --kill-on-bad-exit=1 --ntasks-per-node=1 "--ntasks=${SLURM_JOB_NUM_NODES}" \
    "--cpus-per-task=${SLURM_CPUS_ON_NODE}" "${program[@]}" stage "${folder}" "${DATA_DIR}" --procs "${SLURM_CPUS_ON_NODE}" </dev/null ||
    log::fail "not every node has a copy of ${folder} after STAGE_LIMIT=${STAGE_LIMIT} s; the reasons are above"
  log::info "data: ${DATA_DIR} on each node, copied from ${folder}"
}
