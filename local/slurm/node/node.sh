#!/usr/bin/env bash
# node.sh STATE NODE: sets up a node in this process's namespaces (root, devices, shared file systems, network) and becomes its init.
set -euo pipefail
readonly STATE="$1" NODE="$2"
# shellcheck disable=SC1090,SC1091 # written by local.slurm
. "${STATE}/nodes/${NODE}/spec"

readonly LIVE="${STATE}/live/nodes/${NODE}"
umask 022
hostname "${NODE}"

# The root: an overlay of the shared base and a tmpfs of limited size.
mkdir -p "${LIVE}"
mount -t tmpfs -o "size=${ROOT_MIB}m,mode=0755" "${NODE}" "${LIVE}"
mkdir "${LIVE}/upper" "${LIVE}/work" "${LIVE}/root"
chmod 755 "${LIVE}/upper"
for tree in ${TREES} "${STATE}/nodes/${NODE}/files"; do
  cp -R --preserve=mode,links,xattr "${tree}/." "${LIVE}/upper/"
done
mount -t overlay -o "lowerdir=${BASE},upperdir=${LIVE}/upper,workdir=${LIVE}/work" overlay "${LIVE}/root"
cd "${LIVE}/root"

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=0755 tmpfs run
mkdir -m 1777 run/lock
mount -t tmpfs -o mode=1777 tmpfs tmp

# Devices: copies of the supervisor's. Those of GPUs have no driver, which control groups and bind mounts do not need.
mount -t tmpfs -o mode=0755 tmpfs dev
readonly DEVICES="${STATE}/live/devices"
cp -a "${DEVICES}/usual/." dev/
mkdir dev/pts dev/shm dev/mqueue
: >dev/kmsg # the kernel's log is the host's; tests add lines
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
if ((GPUS)); then
  readarray -t names < <(seq --format "${DEVICES}/gpu/nvidia%g" 0 $((GPUS - 1)))
  cp -a "${names[@]}" "${DEVICES}/gpu/nvidiactl" "${DEVICES}/gpu/nvidia-uvm" dev/
fi
if ((EFA)); then
  mkdir dev/infiniband
  readarray -t names < <(seq --format "${DEVICES}/efa/uverbs%g" 0 $((EFA - 1)))
  cp -a "${names[@]}" dev/infiniband/
  # The kernel here has no EFA: each device's link to its driver, on top of the host's /sys/class.
  for name in "${names[@]##*/}"; do
    mkdir -p "${LIVE}/class/infiniband_verbs/${name}/device"
    ln -s efa "${LIVE}/class/infiniband_verbs/${name}/device/driver"
  done
  mount -t overlay -o "ro,lowerdir=${LIVE}/class:${PWD}/sys/class" class sys/class
fi

# Control groups: the node's own group is the root.
mount -t tmpfs -o mode=0755 tmpfs sys/fs/cgroup
for controller in ${CGROUPS}; do
  mkdir "sys/fs/cgroup/${controller}"
  mount -t cgroup -o "${controller}" cgroup "sys/fs/cgroup/${controller}"
done

# The shared file systems: NAME TARGET.
while read -r name target; do
  mkdir -p ".${target}"
  mount --bind "${STATE}/live/shared/${name}" ".${target}"
done <"${STATE}/nodes/${NODE}/mounts"
# Read-only folders of the host: SOURCE TARGET.
while read -r source target; do
  mkdir -p ".${target}"
  mount --rbind -o ro "${source}" ".${target}"
done <"${STATE}/nodes/${NODE}/binds"
if [[ -n "${SCRATCH}" ]]; then
  mkdir -p ".${SCRATCH}"
  mount -t tmpfs -o "size=${SCRATCH_MIB}m,mode=1777" scratch ".${SCRATCH}"
fi

ip -batch - <<END
link set lo up
addr add ${ADDRESS}/20 dev eth0
link set eth0 up
${ROUTE}
END

touch "${LIVE}.ready"
mkdir -p .old
pivot_root . .old
exec chroot . /bin/bash -ec 'umount -l /.old; rmdir /.old; exec /bin/bash /usr/local/lib/lab/init "$@"' init "${STATE}" "${NODE}" </dev/null
