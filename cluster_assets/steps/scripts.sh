#!/usr/bin/env bash
# The scripts that users run, in the shared scripts folder: a folder per version, named by the bundle's checksum, and the link `current`.
# Versions are never removed (some hundred kilobytes each): a running or requeued job may still read any of them.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

# The folders of the bundle that are copied; the others source lib.
readonly PARTS=(images jobs lib scans training)

# same BUNDLE FOLDER: whether the folder holds the bundle's parts unchanged.
scripts::same() {
  local part
  for part in "${PARTS[@]}"; do
    diff -rq "$1/${part}" "$2/${part}" >/dev/null 2>&1 || return 1
  done
}

# install BUNDLE TARGET: under a hidden name first, then renamed, so that no one sees an incomplete version.
scripts::install() {
  local staged
  staged="$(mktemp -d "${2%/*}/.staged.XXXXXX")"
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf -- '${staged}'" EXIT
  cp -R --preserve=mode "${PARTS[@]/#/$1/}" "${staged}"
  chmod -R u=rwX,go=rX "${staged}"
  # mv fails if a concurrent run has created the folder; its content is the same.
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
    log::info "the environment has no shared file system for scripts: users run those in /opt/trainyard/current"
    return 0
  fi
  bundle="$(cd "${TRAINYARD_LIB}/.." && pwd -P)"
  version="${bundle##*/}"
  base="${TRAINYARD_ROOT}${scripts}"
  [[ ! -L "${base}/versions" ]] || log::fail "${base}/versions is a symbolic link, but must be a folder: remove it, then run the bootstrap again"
  [[ ! -e "${base}/current" || -L "${base}/current" ]] || log::fail "${base}/current is not a symbolic link: move it away, then run the bootstrap again"
  files::folder "${base}/versions" 0755

  if [[ -d "${base}/versions/${version}" ]] && ! scripts::same "${bundle}" "${base}/versions/${version}"; then
    log::warn "${base}/versions/${version} was changed: kept as ${version}.changed.$$, and installed again"
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
