#!/usr/bin/env bash
# supervise.sh STATE: PID 1 of a laboratory, in mount, network, pid, uts and ipc namespaces of its own. All nodes live below it: when it dies, the
# kernel ends every process, mount and interface of the laboratory. So there is nothing else to clean up after a crash but files.
set -euo pipefail
readonly STATE="$1"

# Its own /run and /proc, so that nothing below writes the host's.
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p "${STATE}/live"
mount -t tmpfs -o mode=0755 tmpfs "${STATE}/live"
mkdir -p "${STATE}/live/shared" "${STATE}/live/nodes"

# One file system a line: NAME SIZE_MIB MODE.
while read -r name size mode; do
  mkdir "${STATE}/live/shared/${name}"
  mount -t tmpfs -o "size=${size}m,mode=${mode}" "${name}" "${STATE}/live/shared/${name}"
done <"${STATE}/shared"

hostname trainyard-lab
ip link set lo up
ip link add lab0 type bridge
ip link set lab0 up
touch "${STATE}/live/ready"

trap : CHLD
while :; do
  sleep infinity &
  wait $!
done
