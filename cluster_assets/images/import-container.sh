#!/usr/bin/env bash
# import-container.sh IMAGE_URI NAME [--force]: imports an image from a registry as NAME.sqsh on the shared file system. See --help.
set -euo pipefail
shopt -s inherit_errexit
umask 022

# Overridable by the environment.
IMPORT_FOLDER="${IMPORT_FOLDER:-}"                            # where images go; default CONTAINER_IMAGES_DIR of ~/pcluster-env.sh
IMPORT_SCRATCH="${IMPORT_SCRATCH:-}"                          # a folder on a local disk; default Enroot's folder for temporary files
IMPORT_COMPRESSION="${IMPORT_COMPRESSION:-zstd}"              # zstd, lz4, lzo, gzip or none; docs/images.md has the measurements
IMPORT_PARTITION="${IMPORT_PARTITION:-}"                      # of the job; default the first without GPUs
IMPORT_TIME_LIMIT="${IMPORT_TIME_LIMIT:-02:00:00}"            # of the job
IMPORT_LOG_FOLDER="${IMPORT_LOG_FOLDER:-${HOME}/import-logs}" # of the job's log; home is shared by all nodes
IMPORT_LOCK_SECONDS="${IMPORT_LOCK_SECONDS:-7200}"            # how long to wait for another import of the same name
IMPORT_PROGRESS_SECONDS="${IMPORT_PROGRESS_SECONDS:-30}"      # between two lines of progress
IMPORT_FOLLOW_SECONDS="${IMPORT_FOLLOW_SECONDS:-2}"           # between two polls of the job
IMPORT_SCRATCH_PERCENT="${IMPORT_SCRATCH_PERCENT:-}"          # scratch needed, percent of the compressed layers; default by compression
IMPORT_TARGET_PERCENT="${IMPORT_TARGET_PERCENT:-}"            # space needed in the images folder, likewise
IMPORT_ENROOT_CONF="${IMPORT_ENROOT_CONF:-/etc/enroot/enroot.conf}"

IMPORT_STARTED="${SECONDS}"
IMPORT_WORK=""
IMPORT_PARTIAL=""
IMPORT_HERE="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
readonly IMPORT_HERE IMPORT_STARTED
# shellcheck disable=SC2034 # read by base.sh
LOG_NAME=import-container
for part in ../../lib/base registry files job; do
  # shellcheck source=/dev/null
  . "${IMPORT_HERE}/lib/${part}.sh"
done

import::usage() {
  cat <<END
usage: import-container.sh IMAGE_URI NAME [--force] [--job | --local] [--partition P] [--directory DIR] [--compression C]

Imports a container image with Enroot and puts it on the shared file system as NAME.sqsh, for
  srun --container-image=${IMPORT_FOLDER:-<images folder>}/NAME.sqsh ...
An image that already has the registry's digest is kept. NAME.json next to it records where it came from.

  IMAGE_URI        HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:DIGEST, as for docker pull
  NAME             letters, digits, dots, _, + and -; with a date in it (train-2026-11), running jobs keep their image
  --force          import even if the image already has the digest
  --job            as a Slurm job on an exclusive node, with its log shown here (default outside jobs, if a partition has no GPUs)
  --local          on this machine (otherwise)
  --partition P    of the job (default: the first partition without GPUs)
  --directory DIR  where the image goes (default: CONTAINER_IMAGES_DIR, now '${IMPORT_FOLDER:-not set}')
  --compression C  zstd, lz4, lzo, gzip or none (default: ${IMPORT_COMPRESSION})

The environment may set: IMPORT_FOLDER IMPORT_SCRATCH IMPORT_COMPRESSION IMPORT_PARTITION IMPORT_TIME_LIMIT IMPORT_LOG_FOLDER
IMPORT_LOCK_SECONDS IMPORT_PROGRESS_SECONDS.

Exit status: 0 imported, or already there; 64 wrong arguments; 65 the registry sent other content than requested; 66 no such image;
69 registry or Slurm not reachable; 70 the import failed; 72 a command is missing; 73 no space or no write permission;
75 another import of NAME held its lock too long; 77 no login or no permission to read the image; 78 the file system supports no locks.
END
}

import::arguments() {
  local positional=()
  MODE="" FORCE=no
  while (($#)); do
    case "$1" in
      --force) FORCE=yes ;;
      --job | --local) MODE="${1#--}" ;;
      --partition | --directory | --compression)
        (($# > 1)) || log::exit 64 "$1 needs a value; see --help"
        case "$1" in
          --partition) IMPORT_PARTITION="$2" ;;
          --directory) IMPORT_FOLDER="$2" ;;
          --compression) IMPORT_COMPRESSION="$2" ;;
        esac
        shift
        ;;
      -*) log::exit 64 "no option '$1'; see --help" ;;
      *) positional+=("$1") ;;
    esac
    shift
  done
  ((${#positional[@]} == 2)) || log::exit 64 "import-container.sh takes IMAGE_URI and NAME, got ${#positional[@]} arguments: ${positional[*]}. See --help."
  NAME="${positional[1]}"
  reference::parse "${positional[0]}"
  reference::check_name "${NAME}"
  import::squash_options >/dev/null
  [[ "${IMPORT_FOLDER}" == /* ]] ||
    log::exit 64 "no images folder: '${IMPORT_FOLDER}' is not an absolute path. Source ~/pcluster-env.sh, or give --directory."
  [[ -d "${IMPORT_FOLDER}" ]] || log::exit 73 "the images folder ${IMPORT_FOLDER} does not exist; the head node's bootstrap creates the cluster's own"
}

# Options of mksquashfs. Levels and block sizes: docs/images.md.
import::squash_options() {
  case "${IMPORT_COMPRESSION}" in
    zstd) printf -- '-comp zstd -Xcompression-level 1 -b 131072 -exit-on-error' ;;
    lz4 | lzo | gzip) printf -- '-comp %s -b 131072 -exit-on-error' "${IMPORT_COMPRESSION}" ;;
    none) printf -- '-comp lzo -noD -exit-on-error' ;; # Enroot's own default: only metadata is compressed
    *) log::exit 64 "no compression '${IMPORT_COMPRESSION}'; allowed: zstd, lz4, lzo, gzip, none" ;;
  esac
}

import::may_write() {
  [[ -w "${IMPORT_FOLDER}" ]] ||
    log::exit 73 "you may not write to ${IMPORT_FOLDER}: ask $(stat -c %U "${IMPORT_FOLDER}"), or give --directory FOLDER, one of yours, and to jobs --image FOLDER/${NAME}.sqsh"
}

import::skips() {
  [[ "${FORCE}" == no ]] && record::matches "${NAME}" "${REGISTRY_DIGEST}" || return 1
  log::info "${IMPORT_FOLDER}/${NAME}.sqsh already has ${REGISTRY_DIGEST}: nothing to do"
}

# Removes what killed imports of this name left; the lock is held, so none is running.
import::clean_target() {
  local file
  for file in "${IMPORT_FOLDER}/.${NAME}.import."????????; do
    [[ -f "${file}" ]] || continue
    log::info "removing ${file}, left by an import that was cut short"
    rm -f -- "${file}" || log::warn "could not remove ${file}"
  done
}

import::fetch() {
  local login cache user="" folder="" status=0
  login="$(credentials::for_enroot "${IMAGE_HOST}")"
  [[ -z "${login}" ]] || read -r user folder <<<"${login}"
  # By digest: the record describes what was fetched, even if the tag moves meanwhile.
  local -r uri="docker://${user:+${user}@}${IMAGE_HOST}#${IMAGE_REPOSITORY}:${REGISTRY_MANIFEST}"
  local variables=("ENROOT_TEMP_PATH=${IMPORT_WORK}" "ENROOT_MAX_PROCESSORS=$(nproc)" "ENROOT_SQUASH_OPTIONS=$(import::squash_options)")
  # Enroot does not verify cached layers, so a cache folder that another user owns is not used.
  cache="$(credentials::enroot_value ENROOT_CACHE_PATH)"
  if [[ -n "${cache}" ]]; then
    mkdir -m 0700 "${cache}" 2>/dev/null || true
    [[ -O "${cache}" && ! -L "${cache}" ]] || cache="${IMPORT_WORK}/cache"
    variables+=("ENROOT_CACHE_PATH=${cache}")
  fi
  [[ -z "${folder}" ]] || variables+=("ENROOT_CONFIG_PATH=${folder}")
  watch::run "${IMPORT_WORK}/image.sqsh" "" "importing" env "${variables[@]}" enroot import --output "${IMPORT_WORK}/image.sqsh" "${uri}" || status=$?
  if ((status)); then
    (($(space::free "${IMPORT_WORK}") > 64 << 20)) || log::exit 73 "scratch is full: ${IMPORT_WORK%/*}. $(scratch::advice)."
    log::exit 70 "enroot import ended with status ${status}; its output is above. Nothing was changed in ${IMPORT_FOLDER}."
  fi
  unsquashfs -s "${IMPORT_WORK}/image.sqsh" >/dev/null 2>&1 || log::exit 70 "Enroot wrote a file that is not a squashfs; nothing was changed in ${IMPORT_FOLDER}"
}

# Under a hidden name in the same folder, synced, then renamed: no one sees an incomplete image.
import::publish() {
  local bytes
  bytes="$(stat -c %s "${IMPORT_WORK}/image.sqsh")"
  space::need "${IMPORT_FOLDER}" "${bytes}" "the image" "${SPACE_ADVICE}"
  IMPORT_PARTIAL="$(mktemp "${IMPORT_FOLDER}/.${NAME}.import.XXXXXXXX")" || log::exit 73 "cannot write into ${IMPORT_FOLDER}: ask its owner, $(stat -c %U "${IMPORT_FOLDER}")"
  watch::run "${IMPORT_PARTIAL}" "${bytes}" "copying to ${IMPORT_FOLDER}" \
    dd if="${IMPORT_WORK}/image.sqsh" of="${IMPORT_PARTIAL}" bs=16M conv=fsync status=none ||
    log::exit 73 "the image could not be copied to ${IMPORT_FOLDER} ($(files::size "$(space::free "${IMPORT_FOLDER}")") free, $(files::size "${bytes}") needed); nothing was changed there"
  chmod 0644 "${IMPORT_PARTIAL}"
  mv -fT "${IMPORT_PARTIAL}" "${IMPORT_FOLDER}/${NAME}.sqsh"
  IMPORT_PARTIAL=""
  sync "${IMPORT_FOLDER}"
}

import::end() {
  watch::stop
  [[ -z "${IMPORT_PARTIAL}" ]] || rm -f -- "${IMPORT_PARTIAL}"
  [[ -z "${IMPORT_WORK}" ]] || scratch::remove "${IMPORT_WORK}"
}

import::local() {
  base::need 72 awk aws curl df dd enroot findmnt flock jq mksquashfs setsid sha256sum unsquashfs
  trap import::end EXIT
  trap 'log::info "interrupted"; exit 130' INT
  trap 'log::info "ended by a signal"; exit 143' TERM HUP
  scratch::make
  registry::inspect
  log::info "$(reference::written) is ${REGISTRY_DIGEST}"
  ! import::skips || return 0
  import::may_write
  lock::take "${NAME}"
  # The previous holder of the lock may have imported the same image, and the tag may have moved.
  registry::inspect
  ! import::skips || return 0
  import::clean_target
  space::check
  import::fetch
  import::publish
  record::write "${NAME}" $((SECONDS - IMPORT_STARTED))
  log::info "${IMPORT_FOLDER}/${NAME}.sqsh is there: $(files::size "$(stat -c %s "${IMPORT_FOLDER}/${NAME}.sqsh")") in $((SECONDS - IMPORT_STARTED)) s"
}

import::main() {
  files::find_folder
  case " $* " in
    *" --help "* | *" -h "*) import::usage && return 0 ;;
  esac
  import::arguments "$@"
  if [[ -z "${MODE}" ]]; then
    MODE=job
    [[ -z "${SLURM_JOB_ID:-}" ]] || MODE=local
    command -v sbatch >/dev/null || log::exit 72 "no Slurm on $(hostname); give --local to import on this machine"
    if [[ "${MODE}" == job && -z "$(job::partition)" ]]; then
      log::info "no partition without GPUs is up, and no GPU node is started for an import: it runs here, on $(hostname)"
      MODE=local
    fi
  fi
  if [[ "${MODE}" == job ]]; then
    base::need 72 sbatch scontrol sinfo
    # Checked here first: an image that cannot be imported, or is already there, needs no node.
    base::need 72 awk aws curl jq sha256sum
    trap import::end EXIT
    IMPORT_WORK="$(mktemp -d)"
    local force=() status
    # Not as a condition, in which set -e has no effect.
    set +e
    (
      set -e
      registry::inspect
      import::skips
    )
    status=$?
    set -e
    case "${status}" in
      0) return 0 ;;
      1) ;;
      77)
        # The node's login, which only root and the cluster's user get on the head node (Imds: Secured).
        [[ "$(credentials::line "${IMAGE_HOST}")" == *'$(aws ecr get-login-password'* ]] || exit 77
        log::info "the job asks the registry again: on the head node only root and the cluster's user get the node's role"
        ;;
      *) exit "${status}" ;;
    esac
    import::may_write
    export IMPORT_FOLDER IMPORT_COMPRESSION
    [[ "${FORCE}" == no ]] || force=(--force)
    job::submit "${IMPORT_HERE}" "${NAME}" "$(reference::written)" "${NAME}" "${force[@]}"
  else
    import::local
  fi
}

import::main "$@"
