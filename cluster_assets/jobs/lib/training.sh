# Shared by the training jobs: an experiment's folders, and running the program.
# shellcheck source=cluster_assets/jobs/lib/distributed.sh
. "${TRAINYARD_JOBS}/lib/distributed.sh"
# shellcheck source=cluster_assets/jobs/lib/stage.sh
. "${TRAINYARD_JOBS}/lib/stage.sh"

EXPERIMENT_NAME="${EXPERIMENT_NAME:-}"
: "${WATCHDOG_STALL:=240}" "${WATCHDOG_START:=1800}" "${WATCHDOG_SILENCE:=60}"

readonly TRAINING_VARIABLES=(
  EXPERIMENT_NAME LUSTRE_BASE DATA_DIR CHECKPOINT_DIR LOG_DIR TENSORBOARD_DIR OUTPUT_DIR RESUME_FROM WATCHDOG_DIR PROGRESS_DIR
)
# shellcheck disable=SC2034 # read by the job files, and by programs of the training image
declare -rx TRAINING_PROGRAMS="${TRAINYARD_JOBS%/*}/training"

# Job files may override this.
job::more_help() {
  cat <<'END'

  --experiment E   EXPERIMENT_NAME  names the folders for checkpoints, logs and results; the same name resumes
                                    (default: the job's name and a time stamp)
  --stage NAME     STAGE            copy this data set to each node's local disk first; DATA_DIR is the copy
  -- PROGRAM ...   your program and its arguments; its environment has EXPERIMENT_NAME, LUSTRE_BASE, DATA_DIR,
                   CHECKPOINT_DIR, LOG_DIR, TENSORBOARD_DIR, OUTPUT_DIR, and what torchrun sets (RANK, WORLD_SIZE, ...)
END
  training::help_options
}

training::help_options() {
  distributed::help_options
  cat <<'END'

Options of the watchdog, which ends an attempt that hangs, and requeues the job without the nodes at fault:
  --stall S        WATCHDOG_STALL    seconds without a step (default 240, or four times the longest pause so far; 0: never)
  --start S        WATCHDOG_START    seconds without output, where no step is reported, or not yet (default 1800)
  --silence S      WATCHDOG_SILENCE  seconds without a heartbeat from a node (default 60, at least 12)
END
}

training::check_watchdog() {
  job::number --stall "${WATCHDOG_STALL}" 0 86400
  job::number --start "${WATCHDOG_START}" 1 86400
  job::number --silence "${WATCHDOG_SILENCE}" 12 86400
}

# check NAME: the options. The experiment's name is fixed at submission, or by the job's id, so that a requeued job keeps it.
training::check() {
  distributed::check
  stage::check "$(job::settings .folders.data)"
  local unique
  unique="${SLURM_JOB_ID:-$(date -u +%Y%m%d-%H%M%S)}"
  EXPERIMENT_NAME="${EXPERIMENT_NAME:-$1-${unique}}"
  [[ "${EXPERIMENT_NAME}" =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$ ]] ||
    job::usage_error "--experiment '${EXPERIMENT_NAME}': letters, digits, '.', '_' and '-', at most 80, beginning with a letter or a digit"
  export EXPERIMENT_NAME
  training::check_watchdog
  # A requeued attempt continues the output. Monitoring reads the experiment from the comment.
  JOB_SBATCH+=(--requeue --open-mode=append "--comment=experiment=${EXPERIMENT_NAME}")
}

training::common_folder() {
  local -r folder="$(job::settings '.folders[$name]' --arg name "$1")"
  [[ -n "${folder}" ]] || log::fail "the environment has no folder for ${1}: it has no shared file system, or ${TRAINYARD_SETTINGS} is not on this node"
  printf '%s' "${folder}"
}

training::experiment_folder() {
  local folder
  folder="$(training::common_folder "$1")"
  job::own_folder "${folder}" "${EXPERIMENT_NAME}"
}

training::experiment_folders() {
  DATA_DIR="$(training::common_folder data)"
  CHECKPOINT_DIR="$(training::experiment_folder checkpoints)"
  LOG_DIR="$(training::experiment_folder logs)"
  OUTPUT_DIR="$(training::experiment_folder results)"
  LUSTRE_BASE="$(job::settings .bases.lustre)"
  TENSORBOARD_DIR="${LOG_DIR}/tensorboard"
  RESUME_FROM=""
  training::claim
  training::make_folders
}

# claim: two jobs of one experiment or model would mix their checkpoints. The file .job has the id of the one that runs; a requeued job keeps its id.
training::claim() {
  local -r lock="${CHECKPOINT_DIR}/.job"
  local -r mine="${lock}-${SLURM_JOB_ID}"
  { mkdir -p -- "${CHECKPOINT_DIR}" && echo "${SLURM_JOB_ID}" >"${mine}"; } || log::fail "cannot write in ${CHECKPOINT_DIR}"
  # A link is made by one job only, also on several nodes.
  if ! ln -T -- "${mine}" "${lock}" 2>/dev/null; then
    training::only_job "${lock}"
    mv -fT -- "${mine}" "${lock}" || log::fail "cannot write ${lock}"
    # Another job may have replaced the file of the same ended job.
    sleep 2
    training::only_job "${lock}"
  fi
  rm -f -- "${mine}"
}

# only_job FILE: fail if the job whose id is in FILE is another one, and runs. One that is completing gets three minutes to end.
training::only_job() {
  local owner jobs state
  owner="$(cat -- "$1" 2>/dev/null)" || return 0
  [[ "${owner}" != "${SLURM_JOB_ID}" ]] || return 0
  for _ in {1..36}; do
    state=unknown
    if jobs="$(squeue --noheader --states=running,suspended,completing --format='%A %t')"; then
      state="$(awk -v job="${owner}" '$1 == job { print $2 }' <<<"${jobs}")"
      [[ -n "${state}" ]] || return 0
      [[ "${state}" == CG ]] || break
    fi
    sleep 5
  done
  if [[ "${state}" == unknown ]]; then
    log::warn "squeue does not answer: job ${owner} may write ${CHECKPOINT_DIR} too"
    return 0
  fi
  rm -f -- "$1-${SLURM_JOB_ID}"
  log::fail "job ${owner} (state ${state}) trains ${EXPERIMENT_NAME}, and both would write ${CHECKPOINT_DIR}. Wait for it, cancel it (scancel ${owner}), or train under another name. If job ${owner} is another program, remove $1"
}

training::make_folders() {
  WATCHDOG_NAME="${SLURM_JOB_ID}.${SLURM_RESTART_COUNT:-0}"
  WATCHDOG_DIR="${LOG_DIR}/watchdog/${WATCHDOG_NAME}"
  PROGRESS_DIR="${WATCHDOG_DIR}/progress"
  export LUSTRE_BASE DATA_DIR CHECKPOINT_DIR LOG_DIR TENSORBOARD_DIR OUTPUT_DIR RESUME_FROM WATCHDOG_DIR PROGRESS_DIR
  mkdir -p -- "${WATCHDOG_DIR}/"{progress,nodes,ranks,stacks,flight,failures,nccl} || log::fail "cannot create ${WATCHDOG_DIR}"
  mkdir -p -- "${CHECKPOINT_DIR}" "${LOG_DIR}" "${TENSORBOARD_DIR}" "${OUTPUT_DIR}" ||
    log::fail "cannot create the folders ${CHECKPOINT_DIR}, ${LOG_DIR}, ${TENSORBOARD_DIR} and ${OUTPUT_DIR}"
  stage::data
}

# --- the watchdog (watchdog.py, attempts.py): the files of this attempt are in WATCHDOG_DIR, those of the job one folder above.

# attempts COMMAND [ARGUMENT...]: attempts.py for this job.
training::attempts() {
  "$(base::python)" "${TRAINYARD_JOBS}/watchdog/attempts.py" "$@" --job "${SLURM_JOB_ID}" --history "${LOG_DIR}/watchdog/${SLURM_JOB_ID}.jsonl"
}

# conclude FOLDER [STATUS]: print why an attempt is worth another one; returns 1 if it is not.
training::conclude() {
  local reports status=0
  reports="$(job::settings .folders.results)"
  training::attempts conclude "$1" ${2:+--status "$2"} --silence "${WATCHDOG_SILENCE}" --attempts "${MOST_ATTEMPTS:-3}" --reports "${reports:-${LOG_DIR}}/bad-nodes" || status=$?
  ((status == 3)) || return "${status}"
  # Without a record, Slurm's count is the limit.
  ((${SLURM_RESTART_COUNT:-0} < 10)) || return 1
  printf 'the attempt could not be judged'
}

# watch PID: a watchdog for the launcher PID, started again if it ends first; returns 124 if it ended the attempt and could not write why.
training::watch() {
  local nodes status shared
  local -a output
  nodes="$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | paste -sd ,)"
  shared="$(job::settings .bases.shared)/monitoring/jobs" # only where the environment has monitoring
  mapfile -t output < <(scontrol show job -o "${SLURM_JOB_ID}" | grep -o ' Std\(Err\|Out\)=[^ ]*' | sed 's/^[^=]*=/--output=/' | sort -u)
  [[ ! -d "${shared}" ]] || output+=("--status=${shared}/${SLURM_JOB_ID}.json")
  while kill -0 "$1" 2>/dev/null; do
    status=0
    "$(base::python)" "${TRAINYARD_JOBS}/watchdog/watchdog.py" watch "${WATCHDOG_DIR}" --pid "$1" --nodes "${nodes}" "${output[@]}" \
      --job "${SLURM_JOB_ID}" --history "${LOG_DIR}/watchdog/${SLURM_JOB_ID}.jsonl" --stall "${WATCHDOG_STALL}" \
      --start "${WATCHDOG_START}" --silence "${WATCHDOG_SILENCE}" || status=$?
    ((status != 124)) || return 124
    ((status == 0)) || sleep 5
  done
}

# deputy: on the job's second node, a step that requeues the job if this script and its watchdog are lost. Its srun is in DEPUTY.
training::deputy() {
  local first second
  DEPUTY=""
  { read -r first && read -r second; } < <(scontrol show hostnames "${SLURM_JOB_NODELIST}") || return 0
  srun --overlap --mpi=none --mem=0 --nodes=1 --ntasks=1 --cpus-per-task=1 "--nodelist=${second}" --output=none --error=none \
    "$(base::python)" "${TRAINYARD_JOBS}/watchdog/watchdog.py" deputy "${WATCHDOG_DIR}" --nodes "${first}" --job "${SLURM_JOB_ID}" \
    --silence "${WATCHDOG_SILENCE}" </dev/null 2>/dev/null &
  DEPUTY=$!
}

# launch PROGRAM...: run the program with a watchdog, both in the background, so that the shell can handle signals; returns its status.
training::launch() {
  local program watchdog status previous="${WATCHDOG_DIR%.*}.$((${SLURM_RESTART_COUNT:-0} - 1))"
  # An attempt that Slurm itself requeued.
  [[ ! -d "${previous}" ]] || training::conclude "${previous}" >/dev/null || true
  distributed::launch "$@" &
  program=$!
  training::watch "${program}" &
  watchdog=$!
  training::deputy
  while true; do
    status=0
    wait "${program}" || status=$?
    if ((status <= 128)) || ! kill -0 "${program}" 2>/dev/null; then break; fi
  done
  wait "${watchdog}" || (($? != 124)) || status=124
  echo ended >"${WATCHDOG_DIR}/nodes/.watchdog" || true
  [[ -z "${DEPUTY}" ]] || kill -TERM "${DEPUTY}" 2>/dev/null || true
  [[ ! -e "${WATCHDOG_DIR}/verdict.json" || "${status}" != 0 ]] || status=1
  ((status)) || job::remove_own "${WATCHDOG_DIR}" "${WATCHDOG_NAME}"
  return "${status}"
}

# requeue REASON: requeue the job without the nodes that its attempts accuse. Does not return.
training::requeue() {
  local -r given="${LOG_DIR}/watchdog/.${SLURM_JOB_ID}-excluded"
  local excluded first
  log::info "requeue: $1"
  excluded="$(training::attempts exclude --partition "${SLURM_JOB_PARTITION}" --count "${SLURM_JOB_NUM_NODES}")" || excluded=""
  # What the user excluded, which each update replaces.
  [[ -e "${given}" ]] || scontrol show job -o "${SLURM_JOB_ID}" | sed -n 's/.* ExcNodeList=\([^ (]*\).*/\1/p' >"${given}"
  first="$(<"${given}")"
  excluded+="${excluded:+${first:+,}}${first}"
  # Slurm updates pending jobs only, so after the requeue, which sends SIGTERM first, and SIGKILL seconds later.
  trap '' TERM
  scontrol requeue "${SLURM_JOB_ID}" || log::fail "Slurm refuses to requeue the job; submit it again, it resumes"
  scontrol update "JobId=${SLURM_JOB_ID}" "ExcNodeList=${excluded}" || log::warn "cannot exclude ${excluded}"
  [[ -z "${excluded}" ]] || log::info "excluded: ${excluded}"
  # Slurm ends this script when the requeue is done.
  sleep 300
  log::fail "Slurm did not requeue the job within 300 s"
}

# guarded PROGRAM...: run the program with a watchdog; requeue the job after a hang, a lost node, or a failure after a step.
training::guarded() {
  local status=0 reason
  training::launch "$@" || status=$?
  ((status)) || return 0
  ! reason="$(training::conclude "${WATCHDOG_DIR}" "${status}")" || training::requeue "${reason}"
  log::fail "the program ended with status ${status} (its output is above). The same --experiment resumes"
}

training::run() {
  training::experiment_folders
  distributed::prepare "${TRAINING_VARIABLES[@]}"
  log::info "experiment ${EXPERIMENT_NAME}: checkpoints in ${CHECKPOINT_DIR}"
  training::guarded "$@"
  log::info "passed: ${EXPERIMENT_NAME} is done"
}
