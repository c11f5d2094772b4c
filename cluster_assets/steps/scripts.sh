#!/usr/bin/env bash
# What users run, in the shared scripts folder: a folder for each version, named by the bundle's checksum, and the link `current`. Jobs that
# run keep the version that they were started from: none is ever removed (a version has some hundred kilobytes), as nothing here could know of a job that
# is requeued next month.
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

scripts::main() {
  local scripts bundle version base staged
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

  # Whole under a hidden name first, then renamed: nobody ever sees half a version.
  staged="$(mktemp -d "${base}/versions/.staged.XXXXXX")"
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf -- '${staged}'" EXIT
  scripts::copy "${bundle}" "${staged}"
  if [[ -d "${base}/versions/${version}" ]] && ! diff -rq "${staged}" "${base}/versions/${version}" >/dev/null; then
    log::warn "${base}/versions/${version} is not as it was published: kept as ${version}.changed.$$, and installed anew"
    mv -T "${base}/versions/${version}" "${base}/versions/${version}.changed.$$"
  fi
  if [[ ! -d "${base}/versions/${version}" ]]; then
    # A folder is never renamed onto one that holds something: where another run came first, its folder is as good.
    if mv -T "${staged}" "${base}/versions/${version}" 2>/dev/null; then
      log::info "installed ${base}/versions/${version}"
    elif [[ ! -d "${base}/versions/${version}" ]]; then
      log::fail "cannot install ${base}/versions/${version}: the file system is full or read-only"
    fi
  fi
  if [[ "$(readlink "${base}/current" || true)" != "versions/${version}" ]]; then
    ln -s "versions/${version}" "${staged%/*}/.current.$$"
    mv -fT "${staged%/*}/.current.$$" "${base}/current"
    log::info "${base}/current is ${version}"
  fi
}

scripts::main
