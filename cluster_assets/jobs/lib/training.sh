# Shared by the training jobs: an experiment's folders, and running the program.
# shellcheck source=cluster_assets/jobs/lib/distributed.sh
. "${TRAINYARD_JOBS}/lib/distributed.sh"

EXPERIMENT_NAME="${EXPERIMENT_NAME:-}"

readonly TRAINING_VARIABLES=(EXPERIMENT_NAME LUSTRE_BASE DATA_DIR CHECKPOINT_DIR LOG_DIR TENSORBOARD_DIR OUTPUT_DIR RESUME_FROM)
# shellcheck disable=SC2034 # read by the job files
readonly TRAINING_PROGRAMS="${TRAINYARD_JOBS%/*}/training"

# Job files may override this.
job::more_help() {
  cat <<'END'

  --experiment E   EXPERIMENT_NAME  names the folders for checkpoints, logs and results; the same name resumes
                                    (default: the job's name and a time stamp)
  -- PROGRAM ...   your program and its arguments; its environment has EXPERIMENT_NAME, LUSTRE_BASE, DATA_DIR,
                   CHECKPOINT_DIR, LOG_DIR, TENSORBOARD_DIR, OUTPUT_DIR, and what torchrun sets (RANK, WORLD_SIZE, ...)
END
  distributed::help_options
}

# check NAME: the options. The experiment's name is fixed at submission, or by the job's id, so that a requeued job keeps it.
training::check() {
  distributed::check
  local unique
  unique="${SLURM_JOB_ID:-$(date -u +%Y%m%d-%H%M%S)}"
  EXPERIMENT_NAME="${EXPERIMENT_NAME:-$1-${unique}}"
  [[ "${EXPERIMENT_NAME}" =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$ ]] ||
    job::usage_error "--experiment '${EXPERIMENT_NAME}': letters, digits, '.', '_' and '-', at most 80, beginning with a letter or a digit"
  export EXPERIMENT_NAME
}

training::common_folder() {
  local -r folder="$(job::settings '.folders[$name]' --arg name "$1")"
  [[ -n "${folder}" ]] || log::fail "the environment has no folder for ${1}: it has no shared file system, or ${TRAINYARD_SETTINGS} is not on this node"
  printf '%s' "${folder}"
}

training::experiment_folders() {
  local checkpoints logs results
  DATA_DIR="$(training::common_folder data)"
  checkpoints="$(training::common_folder checkpoints)"
  logs="$(training::common_folder logs)"
  results="$(training::common_folder results)"
  LUSTRE_BASE="$(job::settings .bases.lustre)"
  CHECKPOINT_DIR="${checkpoints}/${EXPERIMENT_NAME}"
  LOG_DIR="${logs}/${EXPERIMENT_NAME}"
  TENSORBOARD_DIR="${LOG_DIR}/tensorboard"
  OUTPUT_DIR="${results}/${EXPERIMENT_NAME}"
  RESUME_FROM=""
  training::make_folders
}

training::make_folders() {
  export LUSTRE_BASE DATA_DIR CHECKPOINT_DIR LOG_DIR TENSORBOARD_DIR OUTPUT_DIR RESUME_FROM
  mkdir -p -- "${CHECKPOINT_DIR}" "${LOG_DIR}" "${TENSORBOARD_DIR}" "${OUTPUT_DIR}" ||
    log::fail "cannot create the folders ${CHECKPOINT_DIR}, ${LOG_DIR}, ${TENSORBOARD_DIR} and ${OUTPUT_DIR}"
}

training::run() {
  training::experiment_folders
  distributed::prepare "${TRAINING_VARIABLES[@]}"
  log::info "experiment ${EXPERIMENT_NAME}: checkpoints in ${CHECKPOINT_DIR}"
  distributed::launch "$@" || log::fail "the program ended with status $? (its output is above). The same --experiment resumes"
  log::info "passed: ${EXPERIMENT_NAME} is done"
}
