#!/usr/bin/env bash
# run.sh ROLE: runs the steps that roles/ROLE lists, in that order, and stops at the first failure. The environment's hooks of the role run
# before the first and after the last step, as steps of their own.
# stdout and the log get everything; stderr gets one line: the failed step and the reason.
. "${BASH_SOURCE[0]%/*}/common.sh"

# log TEXT: a line to stdout and to the log.
run::log() {
  log::info "$1" 2>&1
  log::info "$1" 2>>"${TRAINYARD_LOG}"
}

# step NAME COMMAND...: run one step; NAME is for the log and the reason.
run::step() {
  local -r step="$1"
  shift
  local -r output="${SCRATCH}/output"
  local status=0 reason duration started ended
  export TRAINYARD_REASON="${SCRATCH}/reason"
  : >"${TRAINYARD_REASON}"
  run::log "${step}"
  # The kernel's time in hundredths of a second: no process, and nobody can set it. 10#, because 0.08 becomes 008, which is not octal.
  read -r started _ </proc/uptime
  "$@" </dev/null 2>&1 | tee -a "${TRAINYARD_LOG}" "${output}" || status="${PIPESTATUS[0]}"
  read -r ended _ </proc/uptime
  local -r hundredths=$((10#${ended/./} - 10#${started/./}))
  printf -v duration '%d.%02d s' $((hundredths / 100)) $((hundredths % 100))
  if ((status == 0)); then
    run::log "${step} done in ${duration}"
    return 0
  fi
  if [[ -s "${TRAINYARD_REASON}" ]]; then
    reason="$(<"${TRAINYARD_REASON}")"
  else
    reason="exit status ${status}: $(grep -v '^[[:space:]]*$' "${output}" | tail -n 1)" || true
  fi
  run::log "${step} failed after ${duration}"
  printf '%s of role %s on %s: %s\n' "${step}" "${TRAINYARD_ROLE}" "${HOSTNAME}" "${reason}" >&2
  return 1
}

# hooks LIST: run the hooks of a list, each after a comparison with its pinned checksum.
run::hooks() {
  local -r list="$1"
  local sha256 script file
  [[ -f "${list}" ]] || return 0
  while read -r sha256 script; do
    file="${list%/*}/${sha256}.sh"
    if ! sha256sum --check --status <<<"${sha256}  ${file}" 2>/dev/null; then
      printf 'hook %s: %s is missing or was changed: nothing of it was run\n' "${script}" "${file}" >&2
      return 1
    fi
    run::step "hook ${script}" env --unset=TRAINYARD_VALUES "${file}" || return 1
  done <"${list}"
}

run::main() {
  export TRAINYARD_ROLE="${1:?usage: run.sh ROLE}"
  # An update of the head node repeats the steps of its creation.
  local -r role="${TRAINYARD_ROLE/#updated/head-configured}"
  local bundle step
  bundle="$(cd "${TRAINYARD_LIB}/.." && pwd)"
  local -r list="${bundle}/roles/${role}"
  if [[ ! -f "${list}" ]]; then
    printf "no role '%s'; allowed: %s updated\n" "${TRAINYARD_ROLE}" "$(cd "${bundle}/roles" && echo *)" >&2
    return 1
  fi
  mkdir -p "${TRAINYARD_LOG%/*}"
  settings::load
  SCRATCH="$(mktemp -d)"
  trap 'rm -rf -- "${SCRATCH}"' EXIT
  run::hooks "${bundle}/hooks/${role}.before" || return 1
  while read -r step; do
    [[ -z "${step}" || "${step}" == \#* ]] && continue
    [[ -f "${bundle}/steps/${step}.sh" ]] || {
      printf 'step %s: the bundle has no steps/%s.sh\n' "${step}" "${step}" >&2
      return 1
    }
    run::step "step ${step}" bash "${bundle}/steps/${step}.sh" || return 1
  done <"${list}"
  run::hooks "${bundle}/hooks/${role}.after" || return 1
}

run::main "$@"
