#!/usr/bin/env bash
# build-lab-containers.sh ENROOT PYXIS FOLDER [SUITE]: builds NVIDIA's Enroot and Pyxis for the laboratory's nodes, as root.
#
# ENROOT and PYXIS are checkouts of github.com/NVIDIA/enroot (v4.1.2) and github.com/NVIDIA/pyxis (v0.24.0), without submodules. FOLDER gets the
# programs; LAB_CONTAINERS=FOLDER makes the laboratory use them in place of its stand-ins. SUITE is the nodes' Debian release (default
# bookworm): the build runs in its root file system, whose Slurm's headers the plugin needs.
#
# Differs from a released package: Debian's musl instead of the submodule's, and without `enroot bundle`, which needs the submodule makeself.
set -euo pipefail

build::fail() {
  printf 'build-lab-containers: %s\n' "$1" >&2
  exit "${2:-1}"
}

# In the nodes' root file system, with the checkouts in /build.
build::inside() {
  cd /build/enroot
  # Instead of the submodules: the system's musl and kernel headers, and no makeself.
  mkdir -p deps/{makeself,musl,linux-headers} deps/dist/{makeself,musl}/bin deps/dist/linux/include
  touch deps/{makeself,musl,linux-headers}/.stamp
  ln -s "$(command -v musl-gcc)" deps/dist/musl/bin/musl-gcc
  ln -s /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" deps/dist/linux/include/
  printf '#!/bin/sh\necho "enroot bundle is left out of this build" >&2\nexit 1\n' >deps/dist/makeself/bin/enroot-makeself
  make prefix=/usr/local sysconfdir=/etc LDFLAGS=-static\ -L/build/enroot/deps/dist/libbsd install
  # As the package enroot+caps does, which ParallelCluster's recipes install as well.
  setcap cap_sys_admin+pe /usr/local/bin/enroot-mksquashovlfs
  setcap cap_sys_admin,cap_mknod+pe /usr/local/bin/enroot-aufs2ovlfs
  # ParallelCluster's recipe enables these two hooks (aws-parallelcluster-cookbook 3.12, resources/enroot/partial/_enroot_debian.rb).
  ln -s /usr/local/share/enroot/hooks.d/50-slurm-{pmi,pytorch}.sh /etc/enroot/hooks.d/
  make --directory /build/pyxis prefix=/usr/local install
}

# In a mount namespace of its own: an overlay over the base, whose new files are the result.
build::mounted() {
  local -r base="$1" target="$4" work=/mnt
  local -rA sources=([enroot]="$2" [pyxis]="$3")
  local name
  mount -t tmpfs lab-containers "${work}"
  mkdir "${work}/upper" "${work}/work" "${work}/root"
  mount -t overlay -o "lowerdir=${base},upperdir=${work}/upper,workdir=${work}/work" overlay "${work}/root"
  mkdir "${work}/root/build"
  for name in enroot pyxis; do
    git -C "${sources[${name}]}" archive --prefix="${name}/" HEAD | tar -x -C "${work}/root/build"
  done
  mount --bind /dev "${work}/root/dev"
  mount -t proc proc "${work}/root/proc"
  cp "${BASH_SOURCE[0]}" "${work}/root/build/script"
  chroot "${work}/root" bash /build/script --inside >&2
  rm -rf "${target}"
  mkdir -p "${target}"
  tar -c --xattrs --xattrs-include='security.*' -C "${work}/upper" etc/enroot usr/local/bin usr/local/lib usr/local/share/enroot |
    tar -x --xattrs --xattrs-include='security.*' -C "${target}"
}

build::main() {
  case "${1:-}" in
    --inside)
      build::inside
      return
      ;;
    --mounted)
      shift
      build::mounted "$@"
      return
      ;;
  esac
  (($# == 3 || $# == 4)) || build::fail "usage: build-lab-containers.sh ENROOT PYXIS FOLDER [SUITE]" 64
  [[ "$(id -u)" == 0 ]] || build::fail "needs root, for mount and chroot: run it with sudo" 77
  [[ -f "$1/enroot.in" ]] || build::fail "$1 is not a checkout of github.com/NVIDIA/enroot" 66
  [[ -f "$2/spank_pyxis.lds" ]] || build::fail "$2 is not a checkout of github.com/NVIDIA/pyxis" 66
  local -r root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)" suite="${4:-bookworm}"
  local base
  base="$(cd "${root}" && .venv/bin/python -c 'import sys; from local.slurm import base; print(base.ensure(sys.argv[1]))' "${suite}")"
  unshare --mount --propagation private bash "${BASH_SOURCE[0]}" --mounted "${base}" "$(realpath "$1")" "$(realpath "$2")" "$(realpath -m "$3")/${suite}"
  printf '%s\n' "$3/${suite}: Enroot $(git -C "$1" describe --tags --always), Pyxis $(git -C "$2" describe --tags --always)"
}

build::main "$@"
