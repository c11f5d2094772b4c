#!/usr/bin/env bash
# real_root.sh FOLDER BUCKET REGION ROLE...: runs in mount, process and host-name namespaces of its own, as root. Makes a root from this machine's
# own under an overlay, and runs the bootstrap on it twice. After each run everything that is not the machine's is listed: name, mode, owner, time,
# link, checksum.
set -euo pipefail
readonly FOLDER="$1" BUCKET="$2" REGION="$3" ROOT="$1/layers/root"
shift 3

layers() {
  mount -t tmpfs -o mode=0755 layers "${FOLDER}/layers"
  mkdir "${FOLDER}"/layers/{upper,work,root}
  mount -t overlay -o "lowerdir=/,upperdir=${FOLDER}/layers/upper,workdir=${FOLDER}/layers/work" overlay "${ROOT}"
  mount -t proc proc "${ROOT}/proc"
  mount -t tmpfs -o mode=0755 run "${ROOT}/run"
  mount -t tmpfs -o mode=1777 tmp "${ROOT}/tmp"
  local share
  for share in lustre shared scratch; do
    mkdir "${ROOT}/${share}"
    mount -t tmpfs "${share}" "${ROOT}/${share}"
  done
}

devices() {
  mount -t tmpfs -o mode=0755 dev "${ROOT}/dev"
  mknod -m 666 "${ROOT}/dev/null" c 1 3
  mknod -m 666 "${ROOT}/dev/urandom" c 1 9
  ln -s /proc/self/fd "${ROOT}/dev/fd"
  mkdir "${ROOT}/dev/infiniband"
  local number
  mkdir -p "${ROOT}/sys/bus/pci/drivers/efa"
  for ((number = 0; number < 32; number++)); do
    : >"${ROOT}/dev/infiniband/uverbs${number}"
    mkdir -p "${ROOT}/sys/class/infiniband_verbs/uverbs${number}/device"
    ln -s /sys/bus/pci/drivers/efa "${ROOT}/sys/class/infiniband_verbs/uverbs${number}/device/driver"
  done
  for ((number = 0; number < 8; number++)); do : >"${ROOT}/dev/nvidia${number}"; done
}

# What is above the machine's root, and what is on the file systems. Logs grow, and the entry script fetches the settings anew each time and
# renames them into /opt/trainyard; the health check writes a file on the scratch and removes it.
list() {
  local -a places=(/run/upper/{etc,home,opt,root,usr,var} /lustre /run/enroot /run/pyxis /scratch /shared)
  local -a but=(-not -path '*/var/log/*' -not -path '*/opt/trainyard' -not -path '*/opt/trainyard/settings.json' -not -path '*/opt/trainyard/current' -not -path /scratch)
  {
    chroot "${ROOT}" find "${places[@]}" "${but[@]}" -printf '%p %M %u %g %T@ %l\n' || true
    chroot "${ROOT}" find "${places[@]}" -type f "${but[@]}" -exec sha256sum {} + || true
  } 2>/dev/null | sed 's,/run/upper,,' | sort
}

layers
devices
cp -R --preserve=mode "${FOLDER}/files/." "${ROOT}/"
mkdir "${ROOT}/run/fake"
mount --bind "${FOLDER}/fake" "${ROOT}/run/fake"
chroot "${ROOT}" useradd --create-home --shell /bin/bash trainyard-test
mkdir "${ROOT}/run/upper"
mount --bind "${FOLDER}/layers/upper" "${ROOT}/run/upper"
for run in 1 2; do
  for role in "$@"; do
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root FAKE=/run/fake TRAINYARD_MOUNT_SECONDS=5 \
      chroot "${ROOT}" bash /run/fake/tmpx7k2 "${BUCKET}" "${role}" "${REGION}" >"${FOLDER}/out-${run}-${role}" 2>&1 ||
      { cat "${FOLDER}/out-${run}-${role}" >&2 && exit 1; }
  done
  list >"${FOLDER}/list-${run}"
done
# A login through PAM wants more of a machine than there is here; what the shell reads is the same.
# shellcheck disable=SC2016 # expanded by the inner shell
chroot "${ROOT}" setpriv --reuid=trainyard-test --regid=trainyard-test --init-groups \
  env -i HOME=/home/trainyard-test PATH=/usr/bin:/bin bash -lc 'echo "PATH=${PATH}"; cat ~/.config/enroot/.credentials ~/pcluster-env.sh; stat -c "%a %U" ~/.config/enroot/.credentials' \
  >"${FOLDER}/login" 2>&1
