#!/usr/bin/env bash
#: shell: an interactive shell on some GPUs of one node (default 1), with their share of its CPUs and memory.
#:
#: Usage: shell.sh [--gpus N] [--image NAME] [OPTION...] [-- COMMAND [ARGUMENT...]]
#:
#: Without a command it starts bash. The job ends with the shell.
#:
#:   --gpus N         SHARE_GPUS  GPUs; 0 for none (default 1)
#:   --cpus N         SHARE_CPUS  CPUs instead of the GPUs' share
set -euo pipefail
JOB_FILE="$(readlink -f "$0")"
. "${TRAINYARD_JOBS:=${JOB_FILE%/*}}/lib/sharing.sh"

job::check() {
  [[ -z "${OUTPUT}${RESULTS}" ]] || job::usage_error "--output and --results: a shell writes to your terminal; leave them out"
  sharing::check 0 1
}

# submit: srun in the place of sbatch, with a terminal if there is one.
job::submit() {
  base::need 1 srun scontrol
  SLURM_JOB_PARTITION="${QUEUE}" # the scratch of its nodes
  job::srun_options
  local -a options=("${JOB_SBATCH[@]}" --job-name=shell "--partition=${QUEUE}" "--time=${TIME_LIMIT:-4:00:00}" "${CONTAINER[@]}"
    ${NOTIFY:+"--mail-type=${NOTIFY}"} ${SBATCH_ACCOUNT:+"--account=${SBATCH_ACCOUNT}"} ${SBATCH_QOS:+"--qos=${SBATCH_QOS}"})
  [[ "${JOB_TEST_ONLY}" == no ]] || options+=(--test-only)
  ((${#JOB_REST[@]})) || JOB_REST=(bash)
  [[ ! -t 0 ]] || options+=(--pty)
  exec srun "${options[@]}" "${JOB_REST[@]}"
}

job::main "$@"
