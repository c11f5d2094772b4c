#!/usr/bin/env bash
# node-launch.sh PROGRAM [ARGUMENT...]: one task a node, in the container or on the host: torchrun with this node's processes.
#
# Slurm sends SIGUSR1 to the whole process group. torchrun would die of it, and its workers, in sessions of their own, would not hear it;
# so torchrun starts with it ignored, and this script passes it on to the workers. A worker that wants it installs a handler; one that
# does not goes on.
set -euo pipefail

launch::arguments() {
  local -a arguments=("--nnodes=${NNODES}" "--nproc-per-node=${NPROC_PER_NODE}" --max-restarts=0)
  if [[ "${RENDEZVOUS}" == c10d ]]; then
    arguments+=(--rdzv-backend=c10d "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}" "--rdzv-id=${RENDEZVOUS_ID}")
  else
    arguments+=("--master-addr=${MASTER_ADDR}" "--master-port=${MASTER_PORT}" "--node-rank=${SLURM_NODEID}")
  fi
  printf '%s\n' "${arguments[@]}"
}

# shellcheck disable=SC2329 # called by a trap
# workers PID: the processes that torchrun started here.
launch::workers() {
  local stat pid parent
  for stat in /proc/[0-9]*/stat; do
    read -r pid _ _ parent _ 2>/dev/null < <(sed 's/(.*)/-/' "${stat}" 2>/dev/null) || continue
    [[ "${parent}" == "$1" ]] && printf '%s\n' "${pid}"
  done
  return 0
}

# shellcheck disable=SC2329 # called by a trap
launch::pass_on() {
  local worker
  while kill -0 "$1" 2>/dev/null; do
    while read -r worker; do
      kill -USR1 "${worker}" 2>/dev/null || true
    done < <(launch::workers "$1")
    sleep 5
  done
}

launch::main() {
  (($#)) || {
    echo "node-launch.sh: no program given" >&2
    exit 64
  }
  local -a arguments
  mapfile -t arguments < <(launch::arguments)
  local status=0
  # -- so that torchrun takes none of the program's options for its own.
  (
    trap '' USR1
    exec "${PYTHON}" -m torch.distributed.run "${arguments[@]}" -- "$@"
  ) &
  local -r torchrun=$!
  # Again and again: a worker that is still starting has no handler yet.
  # shellcheck disable=SC2064 # the value of now
  trap "trap '' USR1; launch::pass_on ${torchrun} &" USR1
  trap 'kill -TERM "'"${torchrun}"'" 2>/dev/null || true' TERM INT
  # A signal ends wait early, with a status above 128, while the process goes on.
  while true; do
    status=0
    wait "${torchrun}" || status=$?
    if ((status <= 128)) || ! kill -0 "${torchrun}" 2>/dev/null; then break; fi
  done
  exit "${status}"
}

launch::main "$@"
