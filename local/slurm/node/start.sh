#!/usr/bin/env bash
# start.sh STATE NODE...: starts nodes inside the laboratory's namespaces; services are started later.
# Each node's folder STATE/nodes/NODE has `spec` (shell variables) and `files` (copied over the root).
set -euo pipefail
readonly STATE="$1"
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly HERE
shift

for node in "$@"; do
  # shellcheck disable=SC1090,SC1091 # written by local.slurm
  . "${STATE}/nodes/${node}/spec"
  ip netns add "${node}"
  printf 'link add veth%s type veth peer name eth0 netns %s\nlink set veth%s master lab0 up\n' "${INDEX}" "${node}" "${INDEX}"
done | ip -batch -

for node in "$@"; do
  # shellcheck disable=SC1090,SC1091
  . "${STATE}/nodes/${node}/spec"
  # The node's control group first, so that it is the root of the new cgroup namespace.
  (
    for controller in ${CGROUPS}; do
      group="/sys/fs/cgroup/${controller}/${CGROUP}"
      mkdir -p "${group}"
      echo 0 >"${group}/cgroup.procs"
    done
    rm -f "${STATE}/live/nodes/${node}.ready"
    exec nsenter --net="/run/netns/${node}" unshare --mount --uts --ipc --pid --cgroup --fork --kill-child --propagation private \
      bash "${HERE}/node.sh" "${STATE}" "${node}" </dev/null >>"${STATE}/nodes/${node}/log" 2>&1
  ) &
done

for node in "$@"; do
  for ((attempt = 0; ; attempt++)); do
    [[ -e "${STATE}/live/nodes/${node}.ready" ]] && break
    if ((attempt > 1000)) || ! kill -0 $! 2>/dev/null; then
      echo "the node ${node} did not start: $(tail -n 3 "${STATE}/nodes/${node}/log")" >&2
      exit 1
    fi
    sleep 0.02
  done
done
# The nodes outlive this script as children of the supervisor.
disown -a
