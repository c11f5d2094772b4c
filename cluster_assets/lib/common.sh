# shellcheck shell=bash
# What every step sources: the defaults, and the helpers.
set -euo pipefail
shopt -s inherit_errexit
umask 022

# Overridable, for tests and for repair by hand. With TRAINYARD_ROOT set, nothing outside that folder is written.
export TRAINYARD_ROOT="${TRAINYARD_ROOT:-}"
export TRAINYARD_LOG="${TRAINYARD_LOG:-${TRAINYARD_ROOT}/var/log/trainyard/bootstrap.log}"
export TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-${TRAINYARD_ROOT}/opt/trainyard/settings.json}"
export TRAINYARD_MOUNT_SECONDS="${TRAINYARD_MOUNT_SECONDS:-300}"
export TRAINYARD_MOUNT_PAUSE="${TRAINYARD_MOUNT_PAUSE:-2}"

readonly TRAINYARD_LIB="${BASH_SOURCE[0]%/*}"
# shellcheck source=cluster_assets/lib/log.sh
. "${TRAINYARD_LIB}/log.sh"
# shellcheck source=cluster_assets/lib/settings.sh
. "${TRAINYARD_LIB}/settings.sh"
# shellcheck source=cluster_assets/lib/files.sh
. "${TRAINYARD_LIB}/files.sh"

# need COMMAND...: fails with all that are missing.
common::need() {
  local name missing=()
  for name in "$@"; do
    command -v "${name}" >/dev/null || missing+=("${name}")
  done
  if ((${#missing[@]})); then
    log::fail "missing on this node: ${missing[*]}. Use an official ParallelCluster AMI, or add them to yours."
  fi
}
