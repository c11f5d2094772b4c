#!/usr/bin/env bash
# supervise.sh STATE: PID 1 of a laboratory in its own mount, network, pid, uts and ipc namespaces. When it dies, the kernel removes all
# processes, mounts and interfaces of the laboratory, so a crash leaves only files.
set -euo pipefail
readonly STATE="$1"

# Its own /run and /proc, to protect the host's.
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p "${STATE}/live"
mount -t tmpfs -o mode=0755 tmpfs "${STATE}/live"
mkdir -p "${STATE}/live/shared" "${STATE}/live/nodes"

# One file system per line: NAME SIZE_MIB.
while read -r name size; do
  mkdir "${STATE}/live/shared/${name}"
  mount -t tmpfs -o "size=${size}m,mode=0755" "${name}" "${STATE}/live/shared/${name}"
done <"${STATE}/shared"

# The devices that nodes copy. NAME TYPE MAJOR MINOR MODE.
device() {
  mknod -m "$5" "${STATE}/live/devices/$1" "$2" "$3" "$4"
}
mkdir -p "${STATE}/live/devices/"{usual,gpu,efa}
while read -r name major minor; do device "usual/${name}" c "${major}" "${minor}" 0666; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
END
ln -s pts/ptmx "${STATE}/live/devices/usual/ptmx"
ln -s /proc/self/fd "${STATE}/live/devices/usual/fd"
for number in 0 1 2; do
  name=(stdin stdout stderr)
  ln -s "fd/${number}" "${STATE}/live/devices/usual/${name[number]}"
done
# Loop devices are the host's: squashfs images are mounted through them.
if [[ -e /dev/loop-control ]]; then
  device usual/loop-control c 10 237 0660
  for ((number = 0; number < 32; number++)); do device "usual/loop${number}" b 7 "${number}" 0660; done
fi
for ((number = 0; number < 16; number++)); do device "gpu/nvidia${number}" c 195 "${number}" 0666; done
device gpu/nvidiactl c 195 255 0666
device gpu/nvidia-uvm c 511 0 0666
for ((number = 0; number < 64; number++)); do device "efa/uverbs${number}" c 231 $((192 + number)) 0666; done

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
