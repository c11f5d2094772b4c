# shellcheck shell=bash
# GPU telemetry: one sampler per node, in a step that overlaps the program's. One CSV file per node, one line per GPU and interval.

TELEMETRY_SECONDS="${TELEMETRY_SECONDS:-60}" # 0: none
TELEMETRY_PID=""

readonly TELEMETRY_FIELDS=index,uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm

# Runs on every node. A failure of nvidia-smi is recorded as a comment line.
# shellcheck disable=SC2016 # expanded there
readonly TELEMETRY_SAMPLER='
  file="$1/gpu-$3-$(hostname).csv"
  [ -s "$file" ] || echo "time,$4" >"$file"
  while true; do
    now="$(date -u +%FT%TZ)"
    if lines="$(nvidia-smi --query-gpu="$4" --format=csv,noheader,nounits 2>&1)"; then
      printf "%s\n" "$lines" | sed "s/^/$now, /" >>"$file"
    else
      printf "# %s nvidia-smi failed: %s\n" "$now" "$(printf %s "$lines" | tr "\n" " ")" >>"$file"
    fi
    sleep "$2"
  done
'

# start FOLDER: start the samplers, which run until the job's end or telemetry::stop.
telemetry::start() {
  ((TELEMETRY_SECONDS > 0 && GPUS > 0)) || return 0
  mkdir -p -- "$1"
  "${SRUN[@]}" --overlap --mem=0 --ntasks-per-node=1 "--ntasks=${SLURM_JOB_NUM_NODES}" --cpus-per-task=1 --output=none --error=none \
    bash -c "${TELEMETRY_SAMPLER}" telemetry "$1" "${TELEMETRY_SECONDS}" "${SLURM_JOB_ID}" "${TELEMETRY_FIELDS}" 2>/dev/null &
  TELEMETRY_PID=$!
}

telemetry::stop() {
  [[ -n "${TELEMETRY_PID}" ]] || return 0
  # The first SIGTERM makes srun end its step.
  kill -TERM "${TELEMETRY_PID}" 2>/dev/null || true
  wait "${TELEMETRY_PID}" 2>/dev/null || true
  TELEMETRY_PID=""
}
