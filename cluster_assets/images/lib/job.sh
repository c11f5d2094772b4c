# The import as a Slurm job whose log is followed here, and long commands with progress lines. Needs base.sh and files.sh.

# partition: IMPORT_PARTITION, else the first without GPUs, else nothing. A GPU node is never started for an import that nobody sent there.
# A partition has a line for each kind of node, and one with GPUs is enough to leave it out.
job::partition() {
  local found="${IMPORT_PARTITION}"
  [[ -n "${found}" ]] || found="$(sinfo --noheader --format '%R|%G|%a' | awk -F '|' '
    $3 == "up" { names[++count] = $1 }
    $2 ~ /gpu/ { gpu[$1] }
    END { for (i = 1; i <= count; i++) if (!(names[i] in gpu)) { print names[i]; exit } }')"
  printf '%s' "${found}"
}

# submit FOLDER_OF_SCRIPTS NAME ARGUMENT...: submit, follow, and exit with the job's status.
job::submit() {
  local -r home="$1" name="$2"
  shift 2
  local partition job log
  mkdir -p "${IMPORT_LOG_FOLDER}"
  partition="$(job::partition)"
  [[ -n "${partition}" ]] || log::exit 69 "no partition without GPUs is up: leave --job out to import here, on $(hostname), add a queue of CPU \
nodes to the environment file, or name a partition with --partition ($(sinfo --noheader --format '%R' | sort -u | paste -sd ' '))."
  job="$(IMPORT_HOME="${home}" sbatch --parsable "--partition=${partition}" --job-name="import-${name}" \
    --time="${IMPORT_TIME_LIMIT}" --output="${IMPORT_LOG_FOLDER}/import-${name}-%j.log" "${home}/import-container.sbatch" "$@")" ||
    log::exit 69 "sbatch refused the import. Give another partition with --partition (sinfo lists them), or run it here with --local."
  job="${job%%;*}"
  log="${IMPORT_LOG_FOLDER}/import-${name}-${job}.log"
  log::info "job ${job} in partition ${partition}, log ${log}. Ctrl-C stops following; the job continues (scancel ${job} ends it)."
  job::follow "${job}" "${log}"
}

# follow JOB LOG: print the log as it grows and why the job is pending; exit with the job's status.
job::follow() {
  local -r job="$1" log="$2"
  local shown="" state=PENDING reason line failed=0
  # Each `cat <&7` continues where the last one ended; NFS looks for new content only when a file is opened.
  : >>"${log}"
  exec 7<"${log}"
  while [[ "${state}" =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING)$ ]]; do
    sleep "${IMPORT_FOLLOW_SECONDS}"
    if line="$(scontrol --oneliner show job "${job}" 2>/dev/null)"; then
      failed=0
    elif ((++failed < 5)); then # slurmctld may be restarting
      continue
    fi
    state="$(job::word JobState "${line}")"
    reason="${state}, $(job::word Reason "${line}")"
    if [[ "${reason}" =~ ^(PENDING|CONFIGURING) && "${reason}" != "${shown}" ]]; then
      log::info "job ${job} is pending: ${reason}"
      shown="${reason}"
    fi
    : <"${log}"
    cat <&7 >&2
  done
  # The node's last write may become visible here a moment later.
  timeout 4 bash -c 'until tail --lines=1 "$1" | grep -q "^end of import"; do sleep 0.2; done' wait "${log}" || true
  cat <&7 >&2
  local -r code="$(job::word ExitCode "${line}")"
  case "${state}" in
    COMPLETED) exit 0 ;;
    "") log::exit 70 "Slurm no longer knows job ${job}; see ${log}" ;;
    FAILED) [[ "${code%%:*}" == 0 ]] || exit "${code%%:*}" ;;&
    *) log::exit 70 "job ${job} ended as ${state}; see ${log}. No image was published; run the import again." ;;
  esac
}

job::word() {
  grep -oE "(^| )$1=[^ ]*" <<<"$2" | head -n 1 | cut -d = -f 2- || true
}

WATCH_PID=""

# run FILE TOTAL TEXT COMMAND...: run COMMAND in its own process group and log the size of FILE every IMPORT_PROGRESS_SECONDS, out of TOTAL
# bytes. With an empty TOTAL, COMMAND is Enroot, which writes FILE at its end. Returns COMMAND's exit status.
watch::run() {
  local -r file="$1" total="$2" text="$3"
  shift 3
  local -r started="${SECONDS}"
  local next=$((SECONDS + IMPORT_PROGRESS_SECONDS)) status=0 size
  setsid "$@" &
  WATCH_PID=$!
  while kill -0 "${WATCH_PID}" 2>/dev/null; do
    if ((SECONDS >= next)); then
      size="$(stat -c %s "${file}" 2>/dev/null || echo 0)"
      if [[ -n "${total}" ]] || ((size > 0)); then
        log::info "${text}: $(files::size "${size}")${total:+ of $(files::size "${total}")} written, $((SECONDS - started)) s"
      else
        log::info "${text}: fetching and unpacking, $((SECONDS - started)) s"
      fi
      next=$((SECONDS + IMPORT_PROGRESS_SECONDS))
    fi
    sleep 0.2
  done
  wait "${WATCH_PID}" || status=$?
  WATCH_PID=""
  return "${status}"
}

watch::stop() {
  [[ -n "${WATCH_PID}" ]] || return 0
  kill -TERM -- "-${WATCH_PID}" 2>/dev/null || true
  wait "${WATCH_PID}" 2>/dev/null || true
  WATCH_PID=""
}
