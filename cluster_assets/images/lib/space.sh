# shellcheck shell=bash
# Whether there is room, before anything is fetched. The registry tells the size of the compressed layers; the rest is estimated from it.

# need FOLDER BYTES WHAT ADVICE: fails with 73 where FOLDER's file system has less.
space::need() {
  local -r folder="$1" need="$2" what="$3" advice="$4"
  local free
  free="$(space::free "${folder}")"
  ((free >= need)) ||
    log::fail 73 "no space for ${what}: ${folder} has $(log::size "${free}") free, about $(log::size "${need}") are needed. ${advice}"
}

# target_percent: how large the squashfs file becomes, of the compressed layers' size, with some room. docs/images.md has the measurements.
space::target_percent() {
  case "${IMPORT_COMPRESSION}" in
    lz4) printf '%d' "${IMPORT_TARGET_PERCENT:-175}" ;;
    none) printf '%d' "${IMPORT_TARGET_PERCENT:-400}" ;;
    *) printf '%d' "${IMPORT_TARGET_PERCENT:-125}" ;;
  esac
}

# check: on scratch (layers, their content, and the squashfs file at once) and in the images folder.
space::check() {
  local percent
  percent="$(space::target_percent)"
  # Layers, their content (four times as much where it is mostly libraries), and the file.
  local -r scratch=$((REGISTRY_BYTES * ${IMPORT_SCRATCH_PERCENT:-$((500 + percent))} / 100)) target=$((REGISTRY_BYTES * percent / 100))
  log::info "$(log::size "${REGISTRY_BYTES}") of compressed layers; about $(log::size "${scratch}") of scratch and $(log::size "${target}") in ${IMPORT_FOLDER} are needed"
  space::need "${IMPORT_WORK}" "${scratch}" "unpacking" "Free some, or set IMPORT_SCRATCH to a folder on a larger local disk (on a head node: a larger root volume)."
  space::need "${IMPORT_FOLDER}" "${target}" "the image" "Remove images that nobody uses (list-containers.sh shows them), or enlarge the file system."
}

space::free() {
  df --output=avail --block-size=1 "$1" | tail -n 1 | tr -d ' '
}
