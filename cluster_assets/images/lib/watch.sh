# shellcheck shell=bash
# Long work with a line now and then, which ends with the program: signals reach it at once and all it has started.

WATCH_PID=""

# run FILE TOTAL TEXT COMMAND...: runs COMMAND in a process group of its own; every IMPORT_PROGRESS_SECONDS a line with the size of FILE,
# out of TOTAL bytes where TOTAL is not 0. Its exit status is COMMAND's.
watch::run() {
  local -r file="$1" total="$2" text="$3"
  shift 3
  local -r started="${SECONDS}"
  local next=$((SECONDS + IMPORT_PROGRESS_SECONDS)) status=0
  setsid "$@" &
  WATCH_PID=$!
  while kill -0 "${WATCH_PID}" 2>/dev/null; do
    if ((SECONDS >= next)); then
      watch::line "${file}" "${total}" "${text}" $((SECONDS - started))
      next=$((SECONDS + IMPORT_PROGRESS_SECONDS))
    fi
    sleep 0.2
  done
  wait "${WATCH_PID}" || status=$?
  WATCH_PID=""
  return "${status}"
}

watch::line() {
  local size=0
  [[ ! -f "$1" ]] || size="$(stat -c %s "$1")"
  if (($2 > 0)); then
    log::info "$3: $(log::size "${size}") of $(log::size "$2"), $4 s"
  elif ((size > 0)); then
    log::info "$3: writing the squashfs file, $(log::size "${size}") so far, $4 s"
  else
    log::info "$3: fetching and unpacking, $4 s"
  fi
}

# stop: ends what runs.
watch::stop() {
  [[ -n "${WATCH_PID}" ]] || return 0
  kill -TERM -- "-${WATCH_PID}" 2>/dev/null || true
  wait "${WATCH_PID}" 2>/dev/null || true
  WATCH_PID=""
}
