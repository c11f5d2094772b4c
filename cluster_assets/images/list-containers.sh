#!/usr/bin/env bash
# list-containers.sh [--json]: the container images on the shared file system. See --help.
set -euo pipefail
shopt -s inherit_errexit nullglob

# Overridable by the environment.
IMPORT_FOLDER="${IMPORT_FOLDER:-}" # default CONTAINER_IMAGES_DIR of ~/pcluster-env.sh

LIST_HERE="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
readonly LIST_HERE
LOG_NAME=list-containers
. "${LIST_HERE}/../lib/base.sh"
. "${LIST_HERE}/lib/files.sh"

list::usage() {
  cat <<END
usage: list-containers.sh [--json] [--directory DIR]

Lists the images in ${IMPORT_FOLDER:-the images folder} with import-container.sh's record of each. States:
  ok         the image is the one that its record describes
  changed    the file differs from the recorded one: written by other means, or copied
  no-record  not imported by import-container.sh
  missing    a record without an image

  --json           a JSON array for programs
  --directory DIR  instead of CONTAINER_IMAGES_DIR (now '${IMPORT_FOLDER:-not set}')

Exit status: 0; 64 wrong arguments; 73 no such folder.
END
}

list::one() {
  local -r image="${IMPORT_FOLDER}/$1.sqsh" record="${IMPORT_FOLDER}/$1.json"
  local state=ok content=null bytes=null
  if [[ -f "${record}" ]]; then
    content="$(jq -c . "${record}" 2>/dev/null)" || content=null
  fi
  if [[ ! -f "${image}" ]]; then
    state=missing
  else
    bytes="$(stat -c %s "${image}")"
    if [[ "${content}" == null ]]; then
      state=no-record
    elif ! record::matches "$1" "$(jq -r '.digest // empty' <<<"${content}")"; then
      state=changed
    fi
  fi
  jq -cn --arg name "$1" --arg path "${image}" --arg state "${state}" --argjson bytes "${bytes}" --argjson record "${content}" \
    '{$name, $path, $state, $bytes, image: $record.image, digest: $record.digest, imported: $record.imported, user: $record.user}'
}

# The names of all images and records.
list::names() {
  local file
  for file in "${IMPORT_FOLDER}"/*.{sqsh,json}; do
    file="${file##*/}"
    printf '%s\n' "${file%.*}"
  done | sort -u
}

list::table() {
  jq -r '(["NAME", "SIZE", "STATE", "DIGEST", "IMPORTED", "BY", "IMAGE"],
    (.[] | [.name, (if .bytes == null then "-" elif .bytes >= 1073741824 then "\(.bytes * 10 / 1073741824 | floor / 10) GiB" else "\(.bytes * 10 / 1048576 | floor / 10) MiB" end),
      .state, (.digest // "-" | sub("^sha256:"; "") | .[0:12]), .imported // "-", .user // "-", .image // "-"])) | @tsv' |
    awk -F '\t' '{ for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
      END { for (row = 1; row <= NR; row++) { line = ""; for (i = 1; i <= NF; i++) line = line sprintf(i < NF ? "%-" width[i] "s  " : "%s", cell[row, i]); print line } }'
}

list::main() {
  local json=no all name
  files::find_folder
  while (($#)); do
    case "$1" in
      --json) json=yes ;;
      --help | -h)
        list::usage
        return 0
        ;;
      --directory)
        (($# > 1)) || log::exit 64 "--directory needs a value; see --help"
        IMPORT_FOLDER="$2"
        shift
        ;;
      *) log::exit 64 "no argument '$1'; see --help" ;;
    esac
    shift
  done
  [[ -n "${IMPORT_FOLDER}" ]] || log::exit 64 "no images folder: source ~/pcluster-env.sh, or give --directory"
  [[ -d "${IMPORT_FOLDER}" ]] || log::exit 73 "the images folder ${IMPORT_FOLDER} does not exist"
  all="$(list::names | while read -r name; do list::one "${name}"; done | jq -s .)"
  if [[ "${json}" == yes ]]; then
    printf '%s\n' "${all}"
  elif [[ "$(jq length <<<"${all}")" == 0 ]]; then
    log::info "no images in ${IMPORT_FOLDER}; import one with import-container.sh"
  else
    list::table <<<"${all}"
  fi
}

list::main "$@"
