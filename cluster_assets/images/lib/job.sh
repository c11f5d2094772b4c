# shellcheck shell=bash
# The import as a Slurm job, with its log followed here.

# partition: the one given; else the first without GPUs, where an import costs least; else the cluster's default.
job::partition() {
  local found
  if [[ -n "${IMPORT_PARTITION}" ]]; then
    printf '%s' "${IMPORT_PARTITION}"
    return 0
  fi
  found="$(sinfo --noheader --format '%R|%G|%a' | awk -F '|' '$3 == "up" && $2 !~ /gpu/ { print $1; exit }')"
  [[ -n "${found}" ]] || found="$(sinfo --noheader --format '%P' | sed -n 's/\*$//p' | head -n 1)"
  printf '%s' "${found}"
}

# submit FOLDER_OF_SCRIPTS NAME ARGUMENT...: submits, follows, and ends with the job's exit status.
job::submit() {
  local -r home="$1" name="$2"
  shift 2
  local partition job log
  mkdir -p "${IMPORT_LOG_FOLDER}"
  partition="$(job::partition)"
  job="$(IMPORT_HOME="${home}" sbatch --parsable ${partition:+"--partition=${partition}"} --job-name="import-${name}" \
    --time="${IMPORT_TIME_LIMIT}" --output="${IMPORT_LOG_FOLDER}/import-${name}-%j.log" "${home}/import-container.sbatch" "$@")" ||
    log::fail 69 "sbatch did not take the import. Name another partition with --partition (sinfo lists them), or run it here with --local."
  job="${job%%;*}"
  log="${IMPORT_LOG_FOLDER}/import-${name}-${job}.log"
  log::info "job ${job} in partition ${partition:-(default)}, log ${log}. Ctrl-C stops following; the job goes on (scancel ${job} ends it)."
  job::follow "${job}" "${log}"
}

# follow JOB LOG: copies the log as it grows, says why the job does not start yet, and ends with the job's exit status.
job::follow() {
  local -r job="$1" log="$2"
  local shown=0 size told="" state reason line
  while true; do
    line="$(scontrol --oneliner show job "${job}" 2>/dev/null || true)"
    state="$(job::word JobState "${line}")"
    if [[ -f "${log}" ]]; then
      size="$(stat -c %s "${log}")"
      if ((size > shown)); then
        tail --bytes="+$((shown + 1))" "${log}" | head --bytes=$((size - shown)) >&2
        shown="${size}"
      fi
    fi
    case "${state}" in
      PENDING | CONFIGURING)
        reason="${state}, $(job::word Reason "${line}")"
        [[ "${reason}" == "${told}" ]] || log::info "job ${job} waits: ${reason}"
        told="${reason}"
        ;;
      RUNNING | COMPLETING) ;;
      *) job::end "${job}" "${state}" "$(job::word ExitCode "${line}")" "${log}" "${shown}" ;;
    esac
    sleep "${IMPORT_FOLLOW_SECONDS}"
  done
}

# end JOB STATE EXIT_CODE LOG SHOWN: the last of the log, and the job's status as ours.
job::end() {
  local -r job="$1" state="$2" code="$3" log="$4"
  local attempt
  # What the node wrote last may reach this one's view of the file system a moment later.
  for attempt in {1..20}; do
    [[ -f "${log}" ]] && tail --lines=1 "${log}" | grep -q '^end of import' && break
    ((attempt == 1)) || sleep 0.2
  done
  [[ ! -f "${log}" ]] || tail --bytes="+$(($5 + 1))" "${log}" >&2
  case "${state}" in
    COMPLETED) exit 0 ;;
    "") log::fail 70 "Slurm knows job ${job} no more; see ${log}" ;;
    FAILED) [[ "${code%%:*}" == 0 ]] || exit "${code%%:*}" ;;&
    *) log::fail 70 "job ${job} ended as ${state}; see ${log}. Nothing was left under the image's name; run the import again." ;;
  esac
}

job::word() {
  grep -oE "(^| )$1=[^ ]*" <<<"$2" | head -n 1 | cut -d = -f 2- || true
}
