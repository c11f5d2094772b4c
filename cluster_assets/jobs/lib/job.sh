# shellcheck shell=bash
# What every job sources: defaults, options, submission, and srun with or without a container.
#
# A job file is both the command that a person starts and the script that Slurm runs. Started by hand it checks its options and submits
# itself; in the job it runs job::run, which the file defines. `sbatch FILE [OPTION...]` works as well.
shopt -s inherit_errexit

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
NODES="${NODES:-}" # nodes of the job; empty: the file's own default
QUEUE="${QUEUE:-}" # Slurm partition; empty: the cluster's first
TIME_LIMIT="${TIME_LIMIT:-}"
IMAGE="${IMAGE:-}"     # NAME of an imported image, or the path of a .sqsh file; empty: on the host
MOUNTS="${MOUNTS:-}"   # further container mounts, SOURCE:TARGET[,...]
OUTPUT="${OUTPUT:-}"   # the job's output file; empty: the folder for logs, or the current one
RESULTS="${RESULTS:-}" # where results go; empty: checks/<job name>/<job id> in the folder for results

readonly EXIT_USAGE=64
readonly JOB_NAME="${JOB_FILE##*/}"
JOB_SBATCH=() # sbatch options that the file adds
# shellcheck disable=SC2034 # read by the job files
JOB_REST=() # what stood after --
JOB_TEST_ONLY=no

job::log() {
  printf '%s %s: %s\n' "$(date -u +%FT%TZ)" "${SLURM_JOB_NAME:-${JOB_NAME}}" "$*" >&2
}

job::fail() {
  job::log "FAILED: $*"
  exit 1
}

job::usage_error() {
  printf '%s: %s\nTry: %s --help\n' "${JOB_NAME}" "$*" "${JOB_NAME}" >&2
  exit "${EXIT_USAGE}"
}

# The lines of the job file that begin with '#:' are its help.
job::help() {
  sed -n 's/^#: \{0,1\}//p' "${JOB_FILE}"
  declare -F job::more_help >/dev/null && job::more_help
  cat <<'END'

Options of every job, each also an environment variable:
  --nodes N        NODES       number of nodes
  --queue NAME     QUEUE       Slurm partition (default: the cluster's first)
  --time LIMIT     TIME_LIMIT  Slurm's time limit, for example 30, 2:00:00 or 7-00:00:00
  --image NAME     IMAGE       run in a container: the name of an imported image, or the path of a .sqsh file
  --host                       run on the host (the default of checks)
  --mounts LIST    MOUNTS      further container mounts, SOURCE:TARGET[,SOURCE:TARGET...]
  --output FILE    OUTPUT      file for the job's output (default: the folder for logs, or the current one)
  --results DIR    RESULTS     folder for results
  --test-only                  let Slurm say whether it would accept the job, and submit nothing
  --help                       this text

`sbatch [SBATCH OPTIONS] FILE [OPTIONS]` works too. Exit codes: 0 passed, 1 failed, 64 wrong options.
END
}

job::need() {
  local name missing=()
  for name in "$@"; do
    command -v "${name}" >/dev/null || missing+=("${name}")
  done
  ((${#missing[@]} == 0)) || job::fail "missing on ${HOSTNAME}: ${missing[*]}. Run it on a node of the cluster, or in an image that has them (--image)."
}

# number OPTION VALUE LEAST MOST: a whole number within bounds, or the end.
job::number() {
  if ! [[ "$2" =~ ^[0-9]{1,12}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
    job::usage_error "$1 '$2': give a whole number from $3 to $4"
  fi
}

# settings FILTER [jq ARGUMENT...]: values of settings.json, one a line; nothing for null or without the file.
job::settings() {
  local -r filter="$1"
  shift
  [[ -r "${TRAINYARD_SETTINGS}" ]] || return 0
  jq -r "$@" "(${filter}) | select(. != null)" "${TRAINYARD_SETTINGS}" ||
    job::fail "cannot read '${filter}' from ${TRAINYARD_SETTINGS}"
}

# A Python of 3.9 or later on this node.
job::python() {
  local name
  for name in python3 python3.12 python3.11 python3.9; do
    if command -v "${name}" >/dev/null && "${name}" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
      printf '%s' "${name}"
      return 0
    fi
  done
  job::fail "no Python of 3.9 or later on ${HOSTNAME}: install python3.11, or use an AMI that has one"
}

# option WORD VALUE: the options of every job. Returns 1 for one that it does not know; JOB_SHIFT is how many words it took.
job::common_option() {
  JOB_SHIFT=2
  case "$1" in
    --nodes | --queue | --time | --image | --mounts | --output | --results)
      [[ -n "${2:-}" ]] || job::usage_error "$1 wants a value"
      ;;&
    --nodes)
      job::number --nodes "$2" 1 1024
      NODES="$2"
      ;;
    --queue) QUEUE="$2" ;;
    --time)
      [[ "$2" =~ ^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$ ]] || job::usage_error "--time '$2': give minutes, [HOURS:]MINUTES:SECONDS or DAYS-HOURS"
      TIME_LIMIT="$2"
      ;;
    --image) IMAGE="$2" ;;
    --mounts) MOUNTS="$2" ;;
    --output) OUTPUT="$2" ;;
    --results) RESULTS="$2" ;;
    --host) IMAGE="" JOB_SHIFT=1 ;;
    --test-only) JOB_TEST_ONLY=yes JOB_SHIFT=1 ;;
    *) return 1 ;;
  esac
}

# parse WORD...: options, the file's own through job::option, and what stands after --.
job::parse() {
  while (($#)); do
    JOB_SHIFT=1
    case "$1" in
      -h | --help)
        job::help
        exit 0
        ;;
      --)
        shift
        # shellcheck disable=SC2034 # read by the job files
        JOB_REST=("$@")
        break
        ;;
      --*=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        continue
        ;;
      *)
        job::common_option "$@" || job::option "$@" ||
          job::usage_error "unknown option '$1'"
        ;;
    esac
    shift "${JOB_SHIFT}"
  done
}

# The .sqsh file that IMAGE means.
job::image_file() {
  local folder file="${IMAGE}"
  if [[ "${IMAGE}" != */* ]]; then
    folder="$(job::settings .folders.images)"
    folder="${folder:-${CONTAINER_IMAGES_DIR:-}}"
    [[ -n "${folder}" ]] || job::fail "no folder of images is known on this node; give --image the path of a .sqsh file"
    file="${folder}/${IMAGE%.sqsh}.sqsh"
  fi
  [[ -r "${file}" ]] || job::fail "no image ${file}. Imported are: $(job::images "${file%/*}"). Import one: import-container.sh IMAGE_URI NAME"
  printf '%s' "${file}"
}

job::images() {
  local -r found="$(find "$1" -maxdepth 1 -name '[!.]*.sqsh' -printf '%f ' 2>/dev/null)"
  printf '%s' "${found:-none}"
}

# The GPUs of a node of the queue, as Slurm has them; 0 without.
job::queue_gpus() {
  local gres
  gres="$(sinfo --noheader --exact --format=%G ${QUEUE:+--partition="${QUEUE}"} | head -n 1)"
  [[ "${gres}" =~ gpu:([^:,]*:)?([0-9]+) ]] && printf '%s' "${BASH_REMATCH[2]}" || printf 0
}

# submit WORD...: hand this file to Slurm, with the words it was called with.
job::submit() {
  job::need sbatch sinfo
  local logs
  local -a options=(--export=ALL "${JOB_SBATCH[@]}")
  [[ -z "${QUEUE}" ]] || options+=("--partition=${QUEUE}")
  [[ -z "${NODES}" ]] || options+=("--nodes=${NODES}")
  [[ -z "${TIME_LIMIT}" ]] || options+=("--time=${TIME_LIMIT}")
  [[ "${JOB_TEST_ONLY}" == no ]] || options+=(--test-only)
  if [[ -z "${OUTPUT}" ]]; then
    logs="$(job::settings .folders.logs)"
    [[ -n "${logs}" && -w "${logs}" ]] && OUTPUT="${logs}/%x-%j.out"
  fi
  [[ -z "${OUTPUT}" ]] || options+=("--output=${OUTPUT}")
  export TRAINYARD_JOBS
  exec sbatch "${options[@]}" "${JOB_FILE}" "$@"
}

# The features that ParallelCluster gave this node: its instance type, efa, gpu and others.
job::features() {
  scontrol show node "${SLURMD_NODENAME}" | sed -n 's/.*ActiveFeatures=//p'
}

job::instance_type() {
  job::features | tr , '\n' | grep -E '^[a-z0-9-]+\.[0-9a-z-]+$' | head -n 1 || true
}

job::has_efa() {
  [[ ",$(job::features)," == *,efa,* ]]
}

# Fill SRUN with the options that steps of this job need. Steps get no GPU that they do not ask for, though an exclusive job has all.
job::srun_options() {
  GPUS="${SLURM_GPUS_ON_NODE:-0}"
  SRUN=(srun)
  ((GPUS == 0)) || SRUN+=("--gpus-per-node=${GPUS}")
  CONTAINER=()
  [[ -n "${IMAGE}" ]] || return 0
  local file mount mounts="" scratch
  file="$(job::image_file)"
  # Every file system under its own path, so that paths mean the same inside and outside.
  while read -r mount; do
    [[ -z "${mount}" || "${mount}" == /home ]] || mounts+="${mount}:${mount},"
  done < <(job::settings '.mounts[].path')
  # shellcheck disable=SC2016 # $queue is jq's
  scratch="$(job::settings '.queues[] | select(.name == $queue) | .scratch' --arg queue "${SLURM_JOB_PARTITION}")"
  [[ -z "${scratch}" || ! -d "${scratch}" ]] || mounts+="${scratch}:${scratch},"
  [[ ! -d /dev/infiniband ]] || mounts+="/dev/infiniband:/dev/infiniband,"
  job::is_mounted "${TRAINYARD_JOBS}" || mounts+="${TRAINYARD_JOBS%/*}:${TRAINYARD_JOBS%/*},"
  mounts+="${MOUNTS}"
  CONTAINER=("--container-image=${file}" "--container-mounts=${mounts%,}" --no-container-mount-home)
}

# is_mounted PATH: whether it lies on one of the file systems that containers get.
job::is_mounted() {
  # shellcheck disable=SC2016 # $path is jq's
  [[ -n "$(job::settings '[.mounts[].path | . as $mount | select($mount != "/home" and ($path | startswith($mount + "/")))][0]' --arg path "$1")" ]]
}

# keep VARIABLE...: what the job sets wins over what the image sets.
job::keep_environment() {
  ((${#CONTAINER[@]} == 0)) || CONTAINER+=("--container-env=$(
    IFS=,
    printf '%s' "$*"
  )")
}

# The folder for this job's results, made if need be.
job::results_folder() {
  local base="${RESULTS}"
  if [[ -z "${base}" ]]; then
    base="$(job::settings .folders.results)"
    base="${base:-${SLURM_SUBMIT_DIR}}/checks/${SLURM_JOB_NAME}/${SLURM_JOB_ID}"
  fi
  mkdir -p -- "${base}" || job::fail "cannot make the folder ${base}: give --results a folder that you may write"
  printf '%s' "${base}"
}

# remove_own PATH NAME: remove a folder that this job made, whose last part must be NAME, with the job's id in it.
job::remove_own() {
  local -r path="${1:-}" name="${2:-}"
  [[ -n "${path}" && -n "${name}" && "${path}" == /*/"${name}" && "${name}" == *"${SLURM_JOB_ID:?}"* && "${path}" != *..* ]] ||
    job::fail "will not remove '${path}': it is not this job's own '${name}'"
  [[ -e "${path}" ]] || return 0
  [[ -d "${path}" && ! -L "${path}" && -O "${path}" ]] || job::fail "will not remove '${path}': it is no folder of ${USER:-$(id -un)}"
  rm -rf --one-file-system -- "${path}"
}

# main WORD...: what each job file ends with.
job::main() {
  job::parse "$@"
  declare -F job::check >/dev/null && job::check
  if [[ "${IN_JOB}" == yes ]]; then
    NODES="${SLURM_JOB_NUM_NODES}"
    job::srun_options
    job::run
  else
    job::submit "$@"
  fi
}
