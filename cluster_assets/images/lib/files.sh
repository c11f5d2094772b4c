# shellcheck disable=SC2034
# Files of an import: the image's record, the lock of its name, the scratch folder, and free space. Needs base.sh and registry.sh.

readonly SCRATCH_PREFIX=trainyard-import

# find_folder: set IMPORT_FOLDER from CONTAINER_IMAGES_DIR, if necessary of the environment's file.
files::find_folder() {
  if [[ -z "${IMPORT_FOLDER}" && -z "${CONTAINER_IMAGES_DIR:-}" && -r "${IMPORT_ENVIRONMENT:=/opt/trainyard/pcluster-env.sh}" ]]; then
    # shellcheck source=/dev/null
    . "${IMPORT_ENVIRONMENT}"
  fi
  IMPORT_FOLDER="${IMPORT_FOLDER:-${CONTAINER_IMAGES_DIR:-}}"
}

files::size() {
  numfmt --to=iec-i --suffix=B --format=%.1f "$1" | sed 's/[A-Z]/ &/'
}

# --- record: NAME.json next to NAME.sqsh says where the image came from. It is written after the image and holds the image's size and
# modification time, so a record that belongs to another image is detected.

# matches NAME DIGEST: whether NAME.sqsh is complete and has that digest.
record::matches() {
  local -r image="${IMPORT_FOLDER}/$1.sqsh" record="${IMPORT_FOLDER}/$1.json"
  [[ -f "${image}" && -f "${record}" ]] || return 1
  jq -e --arg digest "$2" --arg stamp "$(record::stamp "${image}")" '.digest == $digest and "\(.bytes) \(.modified)" == $stamp' "${record}" >/dev/null 2>&1
}

record::stamp() {
  # In other locales, %.9Y can have a decimal comma, and then no record matches its image.
  LC_ALL=C stat -c '%s %.9Y' "$1"
}

# write NAME SECONDS: the record of the image that was just published.
record::write() {
  local -r name="$1" seconds="$2" image="${IMPORT_FOLDER}/$1.sqsh"
  local temporary bytes modified
  read -r bytes modified < <(record::stamp "${image}")
  temporary="$(mktemp "${IMPORT_FOLDER}/.${name}.import.XXXXXXXX")"
  jq -n --arg name "${name}" --arg image "$(reference::written)" --arg digest "${REGISTRY_DIGEST}" --arg manifest "${REGISTRY_MANIFEST}" \
    --arg architecture "$(registry::architecture)" --arg imported "$(date -u +%FT%TZ)" --arg user "$(id -un)" --arg host "$(hostname)" \
    --arg job "${SLURM_JOB_ID:-}" --arg compression "${IMPORT_COMPRESSION}" --argjson layers "${REGISTRY_BYTES}" --argjson bytes "${bytes}" \
    --arg modified "${modified}" --argjson seconds "${seconds}" --arg enroot "$(enroot version 2>/dev/null || true)" \
    '{schema: 1, $name, $image, $digest, $manifest, $architecture, $imported, $user, $host, job: (if $job == "" then null else $job end),
      $compression, layer_bytes: $layers, $bytes, $modified, $seconds, $enroot}' >"${temporary}"
  chmod 0644 "${temporary}"
  sync "${temporary}"
  mv -fT "${temporary}" "${IMPORT_FOLDER}/${name}.json"
}

# --- lock: one import per name at a time, on all nodes. Lustre mounted with `flock` (as ParallelCluster mounts it) and NFS carry flock between
# nodes. The lock is released when the last process of an import has ended or its node has died, so a free lock means that no import runs.
# The lock file is never removed: otherwise two imports could lock two files of one name.

# take NAME: hold the lock until this program and everything it started have ended.
lock::take() {
  local -r file="${IMPORT_FOLDER}/.$1.lock"
  local -r started="${SECONDS}"
  local options left status pause=0 problem="${IMPORT_WORK}/lock-problem"
  options="$(findmnt --noheadings --output OPTIONS --target "${IMPORT_FOLDER}" || true)"
  [[ ",${options}," != *,localflock,* ]] ||
    log::exit 78 "${IMPORT_FOLDER} is mounted with localflock, so two nodes could import $1 at once: mount it with flock"
  # Append, so that waiting keeps the holder's name. Others of the group may import the same name later.
  (umask 0113 && : >>"${file}") 2>/dev/null || true
  { exec 9>>"${file}"; } 2>/dev/null || log::exit 73 "cannot write ${file}: ask its owner ($(stat -c %U "${file}" 2>/dev/null || echo nobody)), or use another name"
  while true; do
    status=0
    flock --exclusive --wait "${pause}" --conflict-exit-code 75 9 2>"${problem}" || status=$?
    ((status != 0)) || break
    ((status == 75)) || log::exit 78 "${IMPORT_FOLDER} supports no locks ($(tail -n 1 "${problem}")): mount it with flock"
    left=$((started + IMPORT_LOCK_SECONDS - SECONDS))
    ((left > 0)) ||
      log::exit 75 "$1 is being imported by $(lock::holder "${file}"), for longer than the ${IMPORT_LOCK_SECONDS} s of IMPORT_LOCK_SECONDS. Check it there; an import that hangs can be killed, the next one cleans up after it."
    log::info "waiting: $1 is being imported by $(lock::holder "${file}")"
    pause=$((left < IMPORT_PROGRESS_SECONDS ? left : IMPORT_PROGRESS_SECONDS))
  done
  printf '%s on %s, process %s%s, since %s\n' "$(id -un)" "$(hostname)" "$$" "${SLURM_JOB_ID:+, job ${SLURM_JOB_ID}}" "$(date -u +%FT%TZ)" >"${file}"
}

lock::holder() {
  local holder=""
  read -r holder <"$1" 2>/dev/null || true
  printf '%s' "${holder:-an unknown user}"
}

# --- scratch: a folder on this node's fastest disk for one import.

# base: Enroot's folder for temporary files (local NVMe on our nodes that have it), else /scratch, else /var/tmp. Not /tmp: it may be memory.
scratch::base() {
  local configured
  configured="${IMPORT_SCRATCH:-$(credentials::enroot_value ENROOT_TEMP_PATH)}"
  if [[ -n "${configured}" && ("${configured}" != /tmp || -n "${IMPORT_SCRATCH}") ]]; then
    printf '%s' "${configured}"
  elif mountpoint -q /scratch && [[ -w /scratch ]]; then
    printf /scratch
  else
    printf /var/tmp
  fi
}

# make: set IMPORT_WORK. The lock inside marks the folder as in use, so the folder gets the name that scratch::clean looks for after the lock.
scratch::make() {
  local base made
  base="$(scratch::base)"
  [[ -d "${base}" && -w "${base}" ]] ||
    log::exit 73 "the scratch folder ${base} is missing, or you may not write to it: set IMPORT_SCRATCH to a folder on a local disk with room for the unpacked image"
  scratch::clean "${base}"
  made="$(mktemp -d "${base}/.${SCRATCH_PREFIX}.XXXXXXXX")" || log::exit 73 "cannot create a folder in ${base}: it is full or read-only"
  exec 8>"${made}/lock"
  flock --nonblock 8
  IMPORT_WORK="${base}/${made##*/.}"
  mv -T "${made}" "${IMPORT_WORK}"
}

# clean BASE: remove this user's folders of imports that were killed.
scratch::clean() {
  local folder
  for folder in "$1/${SCRATCH_PREFIX}".*; do
    [[ -O "${folder}" && -f "${folder}/lock" && ! -L "${folder}" ]] || continue
    if (exec 8>"${folder}/lock" && flock --nonblock 8); then
      log::info "removing ${folder}, left by an import that was cut short"
      scratch::remove "${folder}"
    fi
  done
}

# remove FOLDER: image layers may contain folders without write permission.
scratch::remove() {
  chmod -R u+rwX "$1" 2>/dev/null || true
  rm -rf -- "$1" || log::warn "could not remove all of $1"
}

# advice: how to get space on scratch.
scratch::advice() {
  local cache
  cache="$(credentials::enroot_value ENROOT_CACHE_PATH)"
  [[ -O "${cache}" && -z "${IMPORT_SCRATCH:-}" ]] || cache=""
  printf 'Free some%s, or set IMPORT_SCRATCH to a folder on a larger local disk' "${cache:+, for example the layers that Enroot keeps in ${cache}}"
}

# --- space: checked before anything is fetched. The registry reports the size of the compressed layers; the rest is estimated from it.

# need FOLDER BYTES WHAT ADVICE: exit with 73 if FOLDER's file system has less free.
space::need() {
  local -r folder="$1" need="$2" what="$3" advice="$4"
  local free
  free="$(space::free "${folder}")"
  ((free >= need)) ||
    log::exit 73 "no space for ${what}: ${folder} has $(files::size "${free}") free, about $(files::size "${need}") are needed. ${advice}"
}

# check: on scratch (layers, their content and the squashfs file at once) and in the images folder.
space::check() {
  local percent
  # The squashfs file's size as a percentage of the compressed layers, with some room. docs/images.md has the measurements.
  case "${IMPORT_COMPRESSION}" in
    lz4) percent="${IMPORT_TARGET_PERCENT:-175}" ;;
    none) percent="${IMPORT_TARGET_PERCENT:-400}" ;;
    *) percent="${IMPORT_TARGET_PERCENT:-125}" ;;
  esac
  # Layers (1x), their content (4x if it is mostly libraries), and the file.
  local -r scratch=$((REGISTRY_BYTES * ${IMPORT_SCRATCH_PERCENT:-$((500 + percent))} / 100)) target=$((REGISTRY_BYTES * percent / 100))
  log::info "$(files::size "${REGISTRY_BYTES}") of compressed layers; about $(files::size "${scratch}") of scratch and $(files::size "${target}") in ${IMPORT_FOLDER} are needed"
  space::need "${IMPORT_WORK}" "${scratch}" "unpacking" "$(scratch::advice) (on a head node: a larger root volume)."
  space::need "${IMPORT_FOLDER}" "${target}" "the image" "${SPACE_ADVICE}"
}
readonly SPACE_ADVICE="Remove images that are not in use (list-containers.sh lists them), or enlarge the file system."

space::free() {
  df --output=avail --block-size=1 "$1" | tail -n 1 | tr -d ' '
}
