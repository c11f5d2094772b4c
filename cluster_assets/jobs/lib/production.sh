# shellcheck shell=bash
# shellcheck disable=SC2034 # other files read the variables
# One model's run over all attempts: resume, stop before the time limit, requeue, export, clean up.

# Overridable.
MODEL="${MODEL:-}"
CHECKPOINT_STYLE="${CHECKPOINT_STYLE:-manifest}"
GRACE="${GRACE:-600}"
MOST_ATTEMPTS="${MOST_ATTEMPTS:-3}"
EXPORT="${EXPORT:-}"

readonly LAST_SECONDS=20 # of the grace period, for the requeue
STOPPING=no              # yes after SIGUSR1: the time limit is near
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

# check: before submission and again in the job. Options win over the queue and nodes of the model's entry.
production::check() {
  local known
  known="$(job::settings '.models[].name' | tr '\n' ' ')"
  [[ -n "${known}" ]] || job::usage_error "the environment has no models, or ${TRAINYARD_SETTINGS} is not on this node"
  [[ -n "${MODEL}" ]] || job::usage_error "which model? --model NAME, one of: ${known}"
  [[ " ${known}" == *" ${MODEL} "* ]] || job::usage_error "no model '${MODEL}' in this environment; allowed: ${known}"
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
    [[ -n "$(production::model ".folders.${folder}")" ]] || log::fail "model ${MODEL} has no folder for ${folder} in ${TRAINYARD_SETTINGS}"
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

# alone: two jobs of one model would mix their checkpoints. Slurm's list of jobs serves as the lock.
production::alone() {
  local others
  others="$(squeue --noheader --states=running,completing --name="${MODEL}" --format=%A | sort -u | grep -vx "${SLURM_JOB_ID}" | tr '\n' ' ')" || true
  [[ -z "${others// /}" ]] ||
    log::fail "job ${others}already trains ${MODEL}, and both would write ${CHECKPOINT_DIR}. Wait for it, or cancel it: scancel ${others}"
}

# newest: set NEWEST_STEP (-1 for none), NEWEST_PATH and NEWEST_KIND of the newest complete checkpoint.
production::newest() {
  local line status=0
  NEWEST_STEP=-1 NEWEST_PATH="" NEWEST_KIND=""
  line="$("${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" newest "${CHECKPOINT_DIR}" --style "${CHECKPOINT_STYLE}")" || status=$?
  case "${status}" in
    0) IFS=$'\t' read -r NEWEST_STEP NEWEST_PATH NEWEST_KIND <<<"${line}" ;;
    1) ;;
    *) log::fail "cannot look for checkpoints in ${CHECKPOINT_DIR}" ;;
  esac
}

# count_attempt: record time, first step and nodes of this attempt; fail the job after MOST_ATTEMPTS without a newer checkpoint.
production::count_attempt() {
  local -r file="${JOB_TMP}/attempts"
  printf '%s %s %s\n' "$(date -u +%FT%TZ)" "${NEWEST_STEP}" "${SLURM_JOB_NODELIST}" >>"${file}"
  local -r same="$(tac "${file}" | awk -v step="${NEWEST_STEP}" '$2 != step { exit } { count++ } END { print count + 0 }')"
  ((same <= MOST_ATTEMPTS)) ||
    log::fail "${MOST_ATTEMPTS} attempts began at step ${NEWEST_STEP} and none wrote a newer checkpoint; see ${file}. Fix the cause, then submit again"
}

# stop: called by the signal before the time limit.
production::stop() {
  STOPPING=yes
  log::info "the time limit is ${GRACE} s away: asking the program for a checkpoint"
  # To the steps only; the launchers forward it to the program. It also ends the samplers.
  scancel --signal=USR1 "${SLURM_JOB_ID}" || log::info "WARNING: cannot signal the steps"
  # A program that ignores the signal is ended in time for the requeue, which Slurm refuses after the limit.
  (
    sleep "$((GRACE - LAST_SECONDS))"
    log::info "the program continues; ending it"
    # Only steps: without a step number this would cancel the job itself.
    squeue --noheader --steps "--jobs=${SLURM_JOB_ID}" --format=%i | grep -E '\.[0-9]+$' | xargs --no-run-if-empty scancel
  ) &
  STOP_TIMER=$!
}

production::requeue() {
  log::info "requeue: $1"
  telemetry::stop
  scontrol requeue "${SLURM_JOB_ID}" || log::fail "Slurm refuses to requeue the job; submit it again, it resumes at step ${NEWEST_STEP}"
  # Slurm ends this script when the requeue is done.
  sleep 300
  log::fail "Slurm did not requeue the job within 300 s"
}

# node_lost: print the failed nodes of this job; returns 1 if there are none. Slurm requeues after minutes, but the program ends earlier.
production::node_lost() {
  sinfo --noheader --Node "--nodes=${SLURM_JOB_NODELIST}" --format='%N %t' | sort -u | grep -E ' (down|fail|drain|drng|failg|unk|no_respond|[a-z]+\*$)'
}

# launch PROGRAM...: run the program in the background, so that the shell can handle signals; returns its status.
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
    [[ -n "${target}" ]] || log::fail "the environment has no bucket of checkpoints: give --export s3://BUCKET/PREFIX, or none"
    target="s3://${target}/final/${MODEL}/${SLURM_JOB_ID}"
  fi
  base::need 1 aws
  if [[ "${CHECKPOINT_STYLE}" == manifest ]]; then
    "${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" verify "${what}" || log::fail "the final checkpoint is damaged; nothing was exported or removed"
  fi
  "${HOST_PYTHON}" "${TRAINYARD_JOBS}/lib/export_checkpoint.py" "${what}" "${target}/${what##*/}" >&2 ||
    log::fail "the final checkpoint ${what} is not completely in ${target}; nothing was removed. Submit the job again: it continues with the export"
  log::info "exported ${what} to ${target}, checksums compared"
}

# finish: export and clean up. A job that finds a final checkpoint starts here, so submitting again repeats a failed export.
production::finish() {
  telemetry::stop
  production::export
  job::remove_own "${JOB_TMP}" "${TEMPORARY_NAME}"
  log::info "passed: ${MODEL} is done at step ${NEWEST_STEP}, ${NEWEST_PATH}"
}

production::run() {
  local status=0 before
  HOST_PYTHON="$(base::python)"
  production::folders
  production::alone
  "${HOST_PYTHON}" "${TRAINING_PROGRAMS}/checkpoint.py" discard "${CHECKPOINT_DIR}" --owner "${SLURM_JOB_ID}" >&2
  production::newest
  if [[ "${NEWEST_KIND}" == final ]]; then
    log::info "the run is complete: ${NEWEST_PATH}"
    production::finish
    return 0
  fi
  production::count_attempt
  before="${NEWEST_STEP}"
  export RESUME_FROM="${NEWEST_PATH}"
  log::info "attempt $((${SLURM_RESTART_COUNT:-0} + 1)) of ${MODEL}, ${RESUME_FROM:-from the start}"
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
      log::fail "the program ended without a final checkpoint in ${CHECKPOINT_DIR}: it must mark its last one as final (training/checkpoint.py), or give --style"
    ((NEWEST_STEP >= 0)) || log::fail "the program ended without a checkpoint in ${CHECKPOINT_DIR}"
    production::finish
  elif [[ "${STOPPING}" == yes ]]; then
    production::requeue "the time limit is near; the newest complete checkpoint is of step ${NEWEST_STEP}"
  elif ((NEWEST_STEP > before)); then
    production::requeue "the program ended with status ${status}, and this attempt went from step ${before} to ${NEWEST_STEP}"
  elif production::node_lost; then
    production::requeue "a node was lost: $(production::node_lost)"
  else
    log::fail "the program ended with status ${status} before it wrote a newer checkpoint than that of step ${before}; its output is above"
  fi
}
