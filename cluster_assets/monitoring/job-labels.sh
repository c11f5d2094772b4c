#!/bin/bash
# Slurm's prolog and epilog: which job has which GPU, for dcgm-exporter (label hpc_job) and as trainyard_job_info. Installed by
# steps/metrics.sh in prolog.d and epilog.d. Slurm drains the node of a prolog that fails, and gives it no PATH: whatever happens here, the
# exit status is 0. The variables are those that slurmd sets from the job's credential (Slurm 25.11, slurmd/slurmd/req.c), so a job's own
# environment is not visible; but users choose account and comment freely. The experiment is experiment=NAME in the job's comment, as for
# slurm-exporter.py. SLURM_JOB_GPUS has minor numbers (/dev/nvidia<N>), DCGM and nvidia-smi number GPUs in the order of their PCI addresses.
PATH=/usr/bin:/bin LC_ALL=C
METRICS="${TRAINYARD_ROOT:-}/var/lib/trainyard/metrics"
GPU_JOBS="${TRAINYARD_ROOT:-}/run/trainyard/gpu-jobs"

labels::indices() {
  local file line index=0
  for file in "${TRAINYARD_ROOT:-}"/proc/driver/nvidia/gpus/*/information; do
    while read -r line; do
      [[ ! "${line}" =~ ^Device\ Minor:[[:space:]]*([0-9]+) ]] || INDICES[BASH_REMATCH[1]]="${index}"
    done <"${file}"
    index=$((index + 1))
  done
}

labels::start() {
  local -r file="${METRICS}/job-${SLURM_JOB_ID}"
  local -r pattern="(^|[[:space:],;])experiment=([A-Za-z0-9._-]+)"
  local -r user="${SLURM_JOB_USER//[^A-Za-z0-9._@-]/_}" account="${SLURM_JOB_ACCOUNT//[^A-Za-z0-9._@-]/_}"
  local experiment="" gpus gpu text="" INDICES=()
  [[ ! "${SLURM_JOB_COMMENT}" =~ ${pattern} ]] || experiment="${BASH_REMATCH[2]}"
  IFS=, read -r -a gpus <<<"${SLURM_JOB_GPUS}"
  labels::indices
  for gpu in "${gpus[@]:-}"; do
    [[ ! "${gpu}" =~ ^[0-9]+$ ]] || gpu="${INDICES[gpu]:-${gpu}}"
    [[ -z "${gpu}" ]] || printf '%s\n' "${SLURM_JOB_ID}" >"${GPU_JOBS}/${gpu}"
    text+="trainyard_job_info{job=\"${SLURM_JOB_ID}\",user=\"${user}\",account=\"${account}\","
    text+="experiment=\"${experiment}\",gpu=\"${gpu}\"} 1"$'\n'
  done
  printf '# HELP trainyard_job_info A GPU of a job.\n# TYPE trainyard_job_info gauge\n%s' "${text}" >"${file}.tmp" && mv -f "${file}.tmp" "${file}.prom"
}

# A GPU may already be the next job's.
labels::end() {
  local file job mine=()
  for file in "${GPU_JOBS}"/*; do
    job=""
    read -r job <"${file}"
    [[ "${job}" != "${SLURM_JOB_ID}" ]] || mine+=("${file}")
  done
  rm -f "${mine[@]}" "${METRICS}/job-${SLURM_JOB_ID}".*
}

if [[ "${SLURM_JOB_ID}" =~ ^[0-9]+$ && -d "${METRICS}" && -d "${GPU_JOBS}" ]]; then
  case "${SLURM_SCRIPT_CONTEXT}" in
    prolog_slurmd) labels::start ;;
    epilog_slurmd) labels::end ;;
  esac
fi 2>/dev/null
exit 0
