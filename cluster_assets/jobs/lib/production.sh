# shellcheck shell=bash
# shellcheck disable=SC2034 # variables that other files of the library read and export
# One model's run over all its attempts: resume, stop before the time limit, requeue, export, tidy up.

# Overridable.
MODEL="${MODEL:-}"
CHECKPOINT_STYLE="${CHECKPOINT_STYLE:-manifest}"
GRACE="${GRACE:-600}"
MOST_ATTEMPTS="${MOST_ATTEMPTS:-3}"
EXPORT="${EXPORT:-}"

readonly LAST_SECONDS=20 # of the grace, for the requeue
STOPPING=no              # SIGUSR1 has come: the time limit is near
STOP_TIMER=""

production::option() {
  case "$1" in
    --model)
      training::check_name --model "${2:-}"
      MODEL="$2"
      ;;
    --style) CHECKPOINT_STYLE="${2:-}" ;;
    --grace) GRACE="${2:-}" ;;
    --attempts) MOST_ATTEMPTS="${2:-}" ;;
    --telemetry) TELEMETRY_SECONDS="${2:-}" ;;
    --export) EXPORT="${2:-}" ;;
    *) return 1 ;;
  esac
}

production::model() {
  # shellcheck disable=SC2016 # $name is jq's
  job::settings '.models[] | select(.name == $name) | '"$1" --arg name "${MODEL}"
}

# Before submission and again in the job. Queue and nodes come from the model's entry, unless options say otherwise.
production::check() {
  local known
  known="$(job::settings '.models[].name' | tr '\n' ' ')"
  [[ -n "${known}" ]] || job::usage_error "the environment has no models, or ${TRAINYARD_SETTINGS} is not on this node"
  [[ -n "${MODEL}" ]] || job::usage_error "which model? --model NAME, one of: ${known}"
  [[ " ${known}" == *" ${MODEL} "* ]] || job::usage_error "no model '${MODEL}' in this environment; there are: ${known}"
  [[ "${CHECKPOINT_STYLE}" =~ ^(manifest|deepspeed|megatron)$ ]] ||
    job::usage_error "--style '${CHECKPOINT_STYLE}': give manifest, deepspeed or megatron"
  [[ -z "${EXPORT}" || "${EXPORT}" == none || "${EXPORT}" =~ ^s3://[a-z0-9][a-z0-9.-]+/.+ ]] ||
    job::usage_error "--export '${EXPORT}': give s3://BUCKET/PREFIX, or none"
  job::number --grace "${GRACE}" 30 86400
  job::number --attempts "${MOST_ATTEMPTS}" 1 1000
  job::number --telemetry "${TELEMETRY_SECONDS}" 0 86400
  ((${#JOB_REST[@]})) || job::usage_error "no program: give it after --, for example -- /workspace/train.py --config /fsx/config.json"
  QUEUE="${QUEUE:-$(production::model .queue)}"
  NODES="${NODES:-$(production::model .nodes)}"
  JOB_SBATCH=("--job-name=${MODEL}" "--signal=B:USR1@${GRACE}")
  [[ -n "${OUTPUT}" ]] || OUTPUT="$(production::model .folders.logs)/%x-%j.out"
}

production::folders() {
  local folder
  for folder in data checkpoints outputs logs tensorboard; do
    [[ -n "$(production::model ".folders.${folder}")" ]] || job::fail "model ${MODEL} has no folder for ${folder} in ${TRAINYARD_SETTINGS}"
  done
  EXPERIMENT_NAME="${MODEL}"
  DATA_DIR="$(production::model .folders.data)"
  CHECKPOINT_DIR="$(production::model .folders.checkpoints)"
  OUTPUT_DIR="$(production::model .folders.outputs)"
  LOG_DIR="$(production::model .folders.logs)"
  TENSORBOARD_DIR="$(production::model .folders.tensorboard)"
  LUSTRE_BASE="$(job::settings .bases.lustre)"
  readonly TEMPORARY_NAME=".tmp-job-${SLURM_JOB_ID}"
  JOB_TMP="${CHECKPOINT_DIR}/${TEMPORARY_NAME}"
  export EXPERIMENT_NAME JOB_TMP
  training::make_folders
  mkdir -p -- "${JOB_TMP}"
}

# Two jobs that write one model's checkpoints would mix them. The lock is Slurm's list of jobs, which survives any node.
production::alone() {
  local others
  others="$(squeue --noheader --states=running,completing --name="${MODEL}" --format=%A | sort -u | grep -vx "${SLURM_JOB_ID}" | tr '\n' ' ')" || true
  [[ -z "${others// /}" ]] ||
    job::fail "job ${others}trains ${MODEL} already, and both would write ${CHECKPOINT_DIR}. Wait for it, or end it: scancel ${others}"
}

# newest: NEWEST_STEP (-1 for none), NEWEST_PATH and NEWEST_KIND of the newest whole checkpoint.
production::newest() {
  local line status=0
  NEWEST_STEP=-1 NEWEST_PATH="" NEWEST_KIND=""
  line="$("${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" newest "${CHECKPOINT_DIR}" --style "${CHECKPOINT_STYLE}")" || status=$?
  case "${status}" in
    0) IFS=$'\t' read -r NEWEST_STEP NEWEST_PATH NEWEST_KIND <<<"${line}" ;;
    1) ;;
    *) job::fail "cannot look for checkpoints in ${CHECKPOINT_DIR}" ;;
  esac
}

# One line an attempt, in a file of the job's own: time, step that it starts from, nodes. Ends the job when attempts bring nothing new.
production::count_attempt() {
  local -r file="${JOB_TMP}/attempts"
  printf '%s %s %s\n' "$(date -u +%FT%TZ)" "${NEWEST_STEP}" "${SLURM_JOB_NODELIST}" >>"${file}"
  local -r same="$(tac "${file}" | awk -v step="${NEWEST_STEP}" '$2 != step { exit } { count++ } END { print count + 0 }')"
  ((same <= MOST_ATTEMPTS)) ||
    job::fail "${MOST_ATTEMPTS} attempts began at step ${NEWEST_STEP} and none wrote a newer checkpoint; see ${file}. Mend the cause, then submit again"
}

# Called by the signal before the time limit.
production::stop() {
  STOPPING=yes
  job::log "the time limit is ${GRACE} s away: asking the program for a checkpoint"
  # To the steps only; the launchers pass it on to the program. The samplers die of it, which is as well.
  scancel --signal=USR1 "${SLURM_JOB_ID}" || job::log "WARNING: the steps could not be signalled"
  # A program that does not listen is ended in time for the requeue: after the limit Slurm would take no job back.
  (
    sleep "$((GRACE - LAST_SECONDS))"
    job::log "the program goes on; ending it"
    # Step by step: without a step's number this would cancel the job itself.
    squeue --noheader --steps "--jobs=${SLURM_JOB_ID}" --format=%i | grep -E '\.[0-9]+$' | xargs --no-run-if-empty scancel
  ) &
  STOP_TIMER=$!
}

production::requeue() {
  job::log "requeue: $1"
  telemetry::stop
  scontrol requeue "${SLURM_JOB_ID}" || job::fail "Slurm refuses to requeue the job; submit it again, it resumes at step ${NEWEST_STEP}"
  # Slurm ends this script when it has taken the job back.
  sleep 300
  job::fail "Slurm did not take the job back within 300 s"
}

# node_lost: the nodes of this job that Slurm sees fail; a status of 1 where it sees none. Slurm takes minutes to be sure and then requeues
# by itself, but a program that lost its partner ends earlier.
production::node_lost() {
  sinfo --noheader --Node "--nodes=${SLURM_JOB_NODELIST}" --format='%N %t' | sort -u | grep -E ' (down|fail|drain|drng|failg|unk|no_respond|[a-z]+\*$)'
}

# launch PROGRAM...: with the program in the background, so that the shell can take signals. Its status is the program's.
production::launch() {
  local program status
  distributed::launch "$@" &
  program=$!
  while true; do
    status=0
    wait "${program}" || status=$?
    if ((status <= 128)) || ! kill -0 "${program}" 2>/dev/null; then break; fi
  done
  return "${status}"
}

production::export() {
  local target="${EXPORT}" what="${NEWEST_PATH}"
  [[ "${target}" != none ]] || return 0
  if [[ -z "${target}" ]]; then
    target="$(job::settings .buckets.checkpoints)"
    [[ -n "${target}" ]] || job::fail "the environment has no bucket of checkpoints: give --export s3://BUCKET/PREFIX, or none"
    target="s3://${target}/final/${MODEL}/${SLURM_JOB_ID}"
  fi
  job::need aws
  if [[ "${CHECKPOINT_STYLE}" == manifest ]]; then
    "${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" verify "${what}" || job::fail "the final checkpoint is damaged; nothing was exported or removed"
  fi
  "${HOST_PYTHON}" "${TRAINYARD_JOBS}/lib/export_checkpoint.py" "${what}" "${target}/${what##*/}" >&2 ||
    job::fail "the final checkpoint ${what} is not safely in ${target}; nothing was removed. Submit the job again: it goes on with the export"
  job::log "exported ${what} to ${target}, checksums compared"
}

# finish: what follows a complete run. A job that finds the final checkpoint begins here, so a failed export is repeated by submitting again.
production::finish() {
  telemetry::stop
  production::export
  job::remove_own "${JOB_TMP}" "${TEMPORARY_NAME}"
  job::log "passed: ${MODEL} is done at step ${NEWEST_STEP}, ${NEWEST_PATH}"
}

production::run() {
  local status=0 before
  HOST_PYTHON="$(job::python)"
  production::folders
  production::alone
  "${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" discard "${CHECKPOINT_DIR}" --owner "${SLURM_JOB_ID}" >&2
  production::newest
  if [[ "${NEWEST_KIND}" == final ]]; then
    job::log "the run is complete: ${NEWEST_PATH}"
    production::finish
    return 0
  fi
  production::count_attempt
  before="${NEWEST_STEP}"
  export RESUME_FROM="${NEWEST_PATH}"
  job::log "attempt $((${SLURM_RESTART_COUNT:-0} + 1)) of ${MODEL}, ${RESUME_FROM:-from the start}"
  distributed::prepare "${TRAINING_VARIABLES[@]}" JOB_TMP
  trap telemetry::stop EXIT
  trap production::stop USR1
  telemetry::start "${LOG_DIR}"
  production::launch "$@" || status=$?
  trap '' USR1
  [[ -z "${STOP_TIMER}" ]] || kill "${STOP_TIMER}" 2>/dev/null || true
  production::newest
  if ((status == 0)) && [[ "${STOPPING}" == no || "${NEWEST_KIND}" == final ]]; then
    [[ "${CHECKPOINT_STYLE}" != manifest || "${NEWEST_KIND}" == final ]] ||
      job::fail "the program ended without a final checkpoint in ${CHECKPOINT_DIR}: it must mark its last one as final (training/checkpoint.py), or say --style"
    ((NEWEST_STEP >= 0)) || job::fail "the program ended without a checkpoint in ${CHECKPOINT_DIR}"
    production::finish
  elif [[ "${STOPPING}" == yes ]]; then
    production::requeue "the time limit came near; the newest whole checkpoint is of step ${NEWEST_STEP}"
  elif ((NEWEST_STEP > before)); then
    production::requeue "the program ended with status ${status}, and this attempt came from step ${before} to ${NEWEST_STEP}"
  elif production::node_lost; then
    production::requeue "a node was lost: $(production::node_lost)"
  else
    job::fail "the program ended with status ${status} before it wrote a newer checkpoint than that of step ${before}; its last words are above"
  fi
}
