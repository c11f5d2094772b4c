# Sourced by every bootstrap step: defaults, and functions that write files and folders so that a second run changes nothing.
set -euo pipefail
shopt -s inherit_errexit
umask 022

# Overridable for tests and manual repair. With TRAINYARD_ROOT set, nothing outside that folder is written.
export TRAINYARD_ROOT="${TRAINYARD_ROOT:-}"
export TRAINYARD_LOG="${TRAINYARD_LOG:-${TRAINYARD_ROOT}/var/log/trainyard/bootstrap.log}"
export TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-${TRAINYARD_ROOT}/opt/trainyard/settings.json}"
export TRAINYARD_MOUNT_SECONDS="${TRAINYARD_MOUNT_SECONDS:-300}"
export TRAINYARD_MOUNT_PAUSE="${TRAINYARD_MOUNT_PAUSE:-2}"

readonly TRAINYARD_LIB="${BASH_SOURCE[0]%/*}"
. "${TRAINYARD_LIB}/base.sh"
. "${TRAINYARD_LIB}/settings.sh"
. "${TRAINYARD_LIB}/units.sh"

# Of this version, so that a unit changes with the bundle; without the root of the tests.
BUNDLE="$(cd "${TRAINYARD_LIB}/.." && pwd -P)"
readonly BUNDLE="${BUNDLE#"${TRAINYARD_ROOT}"}"

# Files that this step has written.
FILES_WRITTEN=0

# write PATH MODE <text: write a file unless it already has that text and mode; counts in FILES_WRITTEN.
# The temporary name must be hidden: Slurm includes every file of plugstack.conf.d that `*` matches.
files::write() {
  local -r path="$1" mode="$2"
  local -r folder="${path%/*}"
  local temporary text
  # The x keeps trailing newlines, which $() removes.
  text="$(cat && printf x)"
  if [[ ! -L "${path}" && -f "${path}" && "$(stat -c %a "${path}")" == "${mode#0}" ]] && cmp -s "${path}" <(printf '%s' "${text%x}"); then
    return 0
  fi
  mkdir -p "${folder}"
  temporary="$(mktemp "${folder}/.trainyard.XXXXXX")"
  printf '%s' "${text%x}" >"${temporary}"
  chmod "${mode}" "${temporary}"
  mv -fT "${temporary}" "${path}"
  FILES_WRITTEN=$((FILES_WRITTEN + 1))
  log::info "wrote ${path}"
}

# folder PATH MODE: a system folder, owned by root. A link, or a folder of somebody else's, was made by a user and is refused.
files::folder() {
  local -r path="$1" mode="$2"
  [[ -L "${path}" ]] || mkdir -p "${path}"
  [[ ! -L "${path}" && -O "${path}" ]] || log::fail "${path} is a link or belongs to $(stat -c %U "${path}"): remove it, then run the bootstrap again"
  [[ "$(stat -c %a "${path}")" == "${mode#0}" ]] || chmod "${mode}" "${path}"
}

# give MODE OWNER: the current folder, unless another run was faster.
files::give() {
  if [[ -O . ]]; then
    chmod "$1" . && chown "$2:" .
  else
    [[ "$(stat -c %U .)" == "$2" ]]
  fi
}

# user_folder BASE RELATIVE MODE OWNER: create each folder from BASE (exclusive) down to BASE/RELATIVE.
# An existing folder of a user keeps its mode and owner: a project may have restricted it. An existing folder of root was created by FSx for a
# data repository association, or by an interrupted run, and becomes OWNER's. Links are refused: users can write here, and this runs as root.
files::user_folder() {
  local -r base="$1" relative="$2" mode="$3" owner="$4"
  local path part parts created
  path="$(readlink -e "${base}")" || log::fail "${base} does not exist"
  IFS=/ read -r -a parts <<<"${relative}"
  for part in "${parts[@]}"; do
    [[ -n "${part}" ]] || continue
    path="${path}/${part}"
    [[ ! -L "${path}" ]] || log::fail "${path} is a symbolic link, but must be a folder: remove it, then run the bootstrap again"
    created=no
    if mkdir "${path}" 2>/dev/null; then
      created=yes
      log::info "created ${path}"
    fi
    [[ -d "${path}" ]] || log::fail "cannot create ${path}: a file of that name exists, or the file system is full or read-only"
    if [[ "${created}" == yes ]] || [[ -O "${path}" && "$(stat -c %U "${path}")" != "${owner}" ]]; then
      # The owner last: an interrupted run leaves a folder of root, which the next run repairs. From inside, because a user may exchange the name.
      (cd -P "${path}" && [[ "$(pwd -P)" == "${path}" ]] && files::give "${mode}" "${owner}") || log::fail "cannot give ${path} to '${owner}'"
    fi
  done
}
