# shellcheck shell=bash
# Writing files and folders so that a second run changes nothing and nobody ever reads half a file.

# How many files this step has written anew.
FILES_WRITTEN=0

# write PATH MODE <text: the file with that text and mode. Counts in FILES_WRITTEN, and writes nothing, where it is so already.
# The hidden temporary name matters: Slurm includes every file of plugstack.conf.d that `*` matches.
files::write() {
  local -r path="$1" mode="$2"
  local -r folder="${path%/*}"
  local temporary text
  # The x keeps line ends that the shell would cut off.
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

# folder PATH MODE: a folder of the system, owned by root.
files::folder() {
  local -r path="$1" mode="$2"
  mkdir -p "${path}"
  [[ "$(stat -c %a "${path}")" == "${mode#0}" ]] || chmod "${mode}" "${path}"
}

# user_folder BASE RELATIVE MODE OWNER: each folder from BASE down to BASE/RELATIVE, BASE itself left alone.
# One that OWNER or somebody else has already is left as it is: a project may have narrowed it. One that belongs to root was made by FSx
# for a data repository association, or by a run that was cut short, and becomes OWNER's. No link is followed: users may write beside these folders, and this runs as root.
files::user_folder() {
  local -r base="$1" relative="$2" mode="$3" owner="$4"
  local path="${base}" part parts made
  IFS=/ read -r -a parts <<<"${relative}"
  for part in "${parts[@]}"; do
    [[ -n "${part}" ]] || continue
    path="${path}/${part}"
    [[ ! -L "${path}" ]] || log::fail "${path} is a symbolic link where a folder is due: remove it, then run the bootstrap again"
    made=no
    if mkdir "${path}" 2>/dev/null; then
      made=yes
      log::info "made ${path}"
    fi
    [[ -d "${path}" ]] || log::fail "${path} cannot be made: a file of that name is in the way, or the file system is full or read-only"
    if [[ "${made}" == yes ]] || [[ -O "${path}" && "$(stat -c %U "${path}")" != "${owner}" ]]; then
      # The owner last: a run that is cut short here leaves a folder of root's, which the next run takes up.
      chmod "${mode}" "${path}"
      chown -h "${owner}:" "${path}" || log::fail "cannot give ${path} to '${owner}'"
    fi
  done
}
