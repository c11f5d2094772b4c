#!/usr/bin/env bash
# run.sh ROLE: runs the steps that roles/ROLE lists, in that order, and stops at the first failure.
# stdout and the log get everything; stderr gets one line: the failed step and the reason.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run::step() {
  local -r bundle="$1" step="$2"
  local -r output="${SCRATCH}/output" started="${EPOCHREALTIME/./}"
  local status=0 reason
  export TRAINYARD_REASON="${SCRATCH}/reason"
  rm -f "${TRAINYARD_REASON}"
  [[ -f "${bundle}/steps/${step}.sh" ]] || {
    printf 'step %s: the bundle has no steps/%s.sh\n' "${step}" "${step}" >&2
    return 1
  }
  log::info "step ${step}" 2>&1 | tee -a "${TRAINYARD_LOG}"
  bash "${bundle}/steps/${step}.sh" </dev/null 2>&1 | tee -a "${TRAINYARD_LOG}" "${output}" || status="${PIPESTATUS[0]}"
  local -r milliseconds=$(((${EPOCHREALTIME/./} - started) / 1000))
  local -r duration="$((milliseconds / 1000)).$(printf '%03d' $((milliseconds % 1000))) s"
  if ((status == 0)); then
    log::info "step ${step} done in ${duration}" 2>&1 | tee -a "${TRAINYARD_LOG}"
    return 0
  fi
  if [[ -s "${TRAINYARD_REASON}" ]]; then
    reason="$(<"${TRAINYARD_REASON}")"
  else
    reason="exit status ${status}: $(grep -v '^[[:space:]]*$' "${output}" | tail -n 1)" || true
  fi
  log::info "step ${step} failed after ${duration}" 2>&1 | tee -a "${TRAINYARD_LOG}"
  printf 'step %s of role %s on %s: %s\n' "${step}" "${ROLE}" "${HOSTNAME}" "${reason}" >&2
  return 1
}

run::main() {
  readonly ROLE="${1:?usage: run.sh ROLE}"
  local bundle step
  bundle="$(cd "${TRAINYARD_LIB}/.." && pwd)"
  # An update of the head node repeats the steps of its creation.
  local -r list="${bundle}/roles/${ROLE/#updated/head-configured}"
  if [[ ! -f "${list}" ]]; then
    printf "no role '%s'; allowed: %s updated\n" "${ROLE}" "$(cd "${bundle}/roles" && echo *)" >&2
    return 1
  fi
  mkdir -p "${TRAINYARD_LOG%/*}"
  SCRATCH="$(mktemp -d)"
  trap 'rm -rf -- "${SCRATCH}"' EXIT
  while read -r step; do
    [[ -z "${step}" || "${step}" == \#* ]] || run::step "${bundle}" "${step}" || return 1
  done <"${list}"
}

run::main "$@"
