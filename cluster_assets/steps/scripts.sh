#!/usr/bin/env bash
# What users run, in the shared scripts folder: a folder for each version, named by the bundle's checksum, and the link `current`. None is ever
# removed (a version has some hundred kilobytes): nothing here could know which of them a running job still reads, or one that is requeued
# next month.
# shellcheck source=cluster_assets/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

# The parts of the bundle that go there. The scans use lib.
readonly PARTS=(images jobs lib scans training)

# copy BUNDLE FOLDER: the parts as they are to lie there.
scripts::copy() {
  local part
  for part in "${PARTS[@]}"; do
    [[ ! -d "$1/${part}" ]] || cp -R --preserve=mode "$1/${part}" "$2/${part}"
  done
  chmod -R u=rwX,go=rX "$2"
}

# same BUNDLE FOLDER: the folder holds the parts as the bundle has them.
scripts::same() {
  local part
  for part in "${PARTS[@]}"; do
    [[ ! -e "$1/${part}" && ! -e "$2/${part}" ]] || diff -rq "$1/${part}" "$2/${part}" >/dev/null 2>&1 || return 1
  done
}

# install BUNDLE TARGET: whole under a hidden name first, then renamed, so that nobody ever sees half a version.
scripts::install() {
  local staged
  staged="$(mktemp -d "${2%/*}/.staged.XXXXXX")"
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf -- '${staged}'" EXIT
  scripts::copy "$1" "${staged}"
  # A folder is never renamed onto one that holds something: where another run came first, its folder is as good.
  if mv -T "${staged}" "$2" 2>/dev/null; then
    log::info "installed $2"
  elif [[ ! -d "$2" ]]; then
    log::fail "cannot install $2: the file system is full or read-only"
  fi
}

scripts::main() {
  local scripts bundle version base
  scripts="$(settings::get .folders.scripts)"
  if [[ -z "${scripts}" ]]; then
    log::info "the environment has no shared file system for scripts: users have those of /opt/trainyard/current"
    return 0
  fi
  bundle="$(cd "${TRAINYARD_LIB}/.." && pwd -P)"
  version="${bundle##*/}"
  base="${TRAINYARD_ROOT}${scripts}"
  [[ ! -L "${base}/versions" ]] || log::fail "${base}/versions is a symbolic link where a folder is due: remove it, then run the bootstrap again"
  [[ ! -e "${base}/current" || -L "${base}/current" ]] || log::fail "${base}/current is no symbolic link: move it away, then run the bootstrap again"
  files::folder "${base}/versions" 0755

  if [[ -d "${base}/versions/${version}" ]] && ! scripts::same "${bundle}" "${base}/versions/${version}"; then
    log::warn "${base}/versions/${version} is not as it was published: kept as ${version}.changed.$$, and installed anew"
    mv -T "${base}/versions/${version}" "${base}/versions/${version}.changed.$$"
  fi
  [[ -d "${base}/versions/${version}" ]] || scripts::install "${bundle}" "${base}/versions/${version}"
  if [[ "$(readlink "${base}/current" || true)" != "versions/${version}" ]]; then
    ln -s "versions/${version}" "${base}/versions/.current.$$"
    mv -fT "${base}/versions/.current.$$" "${base}/current"
    log::info "${base}/current is ${version}"
  fi
}

scripts::main
