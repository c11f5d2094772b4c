#!/usr/bin/env bash
# node-launch.sh PROGRAM [ARGUMENT...]: one task per node, in the container or on the host, runs torchrun with this node's processes.
#
# Slurm sends SIGUSR1 to the process group. It would kill torchrun and not reach the workers, which are in their own sessions. So torchrun
# starts with the signal ignored, and this script forwards it to the workers; workers without a handler continue.
set -euo pipefail

# shellcheck disable=SC2329 # called by a trap
# workers PID: the child processes of torchrun.
launch::workers() {
  local stat pid parent
  for stat in /proc/[0-9]*/stat; do
    read -r pid _ _ parent _ 2>/dev/null < <(sed 's/(.*)/-/' "${stat}" 2>/dev/null) || continue
    [[ "${parent}" == "$1" ]] && printf '%s\n' "${pid}"
  done
  return 0
}

# shellcheck disable=SC2329 # called by a trap
launch::forward() {
  local worker
  while kill -0 "$1" 2>/dev/null; do
    while read -r worker; do
      kill -USR1 "${worker}" 2>/dev/null || true
    done < <(launch::workers "$1")
    sleep 5
  done
}

# heartbeat PID: write the time for the watchdog until this script ends. If Slurm's step daemon is gone, kill the program, because
# nothing collects its output and exit status.
launch::heartbeat() {
  local -r file="${WATCHDOG_DIR}/nodes/${SLURMD_NODENAME:-${HOSTNAME}}"
  local parent worker
  while read -r _ _ _ parent _ 2>/dev/null < <(sed 's/(.*)/-/' "/proc/$$/stat" 2>/dev/null) && [[ -n "${parent}" ]]; do
    if [[ "${parent}" != "${PPID}" ]]; then
      while read -r worker; do kill -KILL "${worker}" 2>/dev/null || true; done < <(launch::workers "$1")
      kill -KILL "$1" "$$" 2>/dev/null || true
      printf 'orphaned\n' >"${file}" || true
      return 0
    fi
    printf 'running %s %(%s)T\n' "${SLURM_STEP_ID:-}" -1 >"${file}" || true
    sleep 5
  done
}

launch::main() {
  local -a arguments=("--nnodes=${NNODES}" "--nproc-per-node=${NPROC_PER_NODE}" --max-restarts=0)
  if [[ "${RENDEZVOUS}" == c10d ]]; then
    arguments+=(--rdzv-backend=c10d "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}" "--rdzv-id=${RENDEZVOUS_ID}")
  else
    arguments+=("--master-addr=${MASTER_ADDR}" "--master-port=${MASTER_PORT}" "--node-rank=${SLURM_NODEID}")
  fi
  local status=0
  # After --, torchrun does not parse the program's options.
  (
    trap '' USR1
    exec "${PYTHON}" -m torch.distributed.run "${arguments[@]}" -- "${BASH_SOURCE[0]%/*}/../watchdog/rank.py" "$@"
  ) &
  local -r torchrun=$!
  local heartbeat=""
  if [[ -n "${WATCHDOG_DIR:-}" ]]; then
    launch::heartbeat "${torchrun}" </dev/null >/dev/null 2>&1 &
    heartbeat=$!
  fi
  # Repeatedly: a worker that is still starting has no handler yet.
  # shellcheck disable=SC2064 # the value of now
  trap "trap '' USR1; launch::forward ${torchrun} &" USR1
  trap 'kill -TERM "'"${torchrun}"'" 2>/dev/null || true' TERM INT
  # A signal interrupts wait with a status above 128 while the process continues.
  while true; do
    status=0
    wait "${torchrun}" || status=$?
    if ((status <= 128)) || ! kill -0 "${torchrun}" 2>/dev/null; then break; fi
  done
  if [[ -n "${heartbeat}" ]]; then
    kill "${heartbeat}" 2>/dev/null || true
    printf 'ended %s\n' "${status}" >"${WATCHDOG_DIR}/nodes/${SLURMD_NODENAME:-${HOSTNAME}}" || true
  fi
  exit "${status}"
}

launch::main "$@"
