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
    exec "${PYTHON}" -m torch.distributed.run "${arguments[@]}" -- "$@"
  ) &
  local -r torchrun=$!
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
  exit "${status}"
}

launch::main "$@"
