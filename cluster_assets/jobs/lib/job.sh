# Sourced by every job: defaults, options, submission, and srun with or without a container.
#
# A job file is a command and a Slurm script. Run by hand, it checks its options and submits itself; in the job, it runs job::run, which
# the file defines. `sbatch FILE [OPTION...]` works too.
shopt -s inherit_errexit

# Overridable. The help explains the options' variables; empty is their default.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
: "${NODES:=}" "${QUEUE:=}" "${TIME_LIMIT:=}" "${IMAGE:=}" "${MOUNTS:=}" "${OUTPUT:=}" "${RESULTS:=}" "${NOTIFY:=}" "${SBATCH_ACCOUNT:=}" "${SBATCH_QOS:=}"

readonly JOB_NAME="${JOB_FILE##*/}"
JOB_SBATCH=() # sbatch options that the file adds
# shellcheck disable=SC2034 # read by the job files
JOB_REST=() # the words after --
JOB_TEST_ONLY=no

# shellcheck disable=SC2034 # read by base.sh
LOG_NAME="${SLURM_JOB_NAME:-${JOB_NAME}}"
# shellcheck source=cluster_assets/lib/base.sh
. "${TRAINYARD_JOBS}/../lib/base.sh"
# shellcheck source=cluster_assets/lib/settings.sh
. "${TRAINYARD_JOBS}/../lib/settings.sh"

job::usage_error() {
  printf '%s: %s\nTry: %s --help\n' "${JOB_NAME}" "$*" "${JOB_NAME}" >&2
  exit 64
}

# The help is the lines of the job file that begin with '#:'. It is also the table of options: `--name VALUE  VARIABLE  text`.
# Read from the running script, in a job Slurm's copy: the original may have changed, moved or gone since the submission.
job::help() {
  [[ -r "$0" ]] || log::fail "cannot read the options of ${JOB_NAME} from $0: start the file by its path"
  sed -n 's/^#: \{0,1\}//p' "$0"
  declare -F job::more_help >/dev/null && job::more_help
  cat <<'END'

Options of every job, each also an environment variable:
  --nodes N        NODES       number of nodes
  --queue NAME     QUEUE       Slurm partition (default: the cluster's first)
  --time LIMIT     TIME_LIMIT  Slurm's time limit, for example 30, 2:00:00 or 7-00:00:00
  --image NAME     IMAGE       run in a container: the name of an imported image, or the path of a .sqsh file
  --host                       run on the host (the default of checks)
  --mounts LIST    MOUNTS      more container mounts, SOURCE:TARGET[,SOURCE:TARGET...]
  --output FILE    OUTPUT      file for the job's output (default: in the folder for logs, or the current one)
  --results DIR    RESULTS     folder for results
  --account NAME   SBATCH_ACCOUNT  team whose account the job counts for (default: the model's team, else your default account)
  --qos NAME       SBATCH_QOS  quality of service (default: the account's)
  --notify EVENTS  NOTIFY      messages about the job (sbatch --mail-type), for example END,FAIL or ALL
  --test-only                  ask Slurm whether it would accept the job, and submit nothing
  --help                       this text

`sbatch [SBATCH OPTIONS] FILE [OPTIONS]` works too. Exit codes: 0 passed, 1 failed, 64 wrong options.
END
}

# number OPTION VALUE LEAST MOST: a usage error unless VALUE is a whole number within the bounds, or empty.
job::number() {
  [[ -n "$2" ]] || return 0
  if ! [[ "$2" =~ ^[0-9]{1,12}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
    job::usage_error "$1 '$2': give a whole number from $3 to $4"
  fi
}

# settings FILTER [JQ_ARGUMENT...]: as settings::get; nothing on a machine without settings.json.
job::settings() {
  [[ ! -r "${TRAINYARD_SETTINGS}" ]] || settings::get "$@"
}

# parse WORD...: the options of the help, each of which sets its variable, and the words after --.
job::parse() {
  local variable
  while (($#)); do
    case "$1" in
      -h | --help)
        job::help
        exit 0
        ;;
      --)
        # shellcheck disable=SC2034 # read by the job files
        JOB_REST=("${@:2}")
        break
        ;;
      --*=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        continue
        ;;
      --host) IMAGE="" ;;
      --test-only) JOB_TEST_ONLY=yes ;;
      *)
        variable="$(job::help | awk -v option="$1" '$1 == option && $3 ~ /^[A-Z_]+$/ { print $3 }')"
        [[ -n "${variable}" ]] || job::usage_error "unknown option '$1'"
        [[ -n "${2:-}" ]] || job::usage_error "$1 needs a value"
        printf -v "${variable}" '%s' "$2"
        shift
        ;;
    esac
    shift
  done
  job::number --nodes "${NODES}" 1 1024
  [[ -z "${TIME_LIMIT}" || "${TIME_LIMIT}" =~ ^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$ ]] ||
    job::usage_error "--time '${TIME_LIMIT}': give minutes, [HOURS:]MINUTES:SECONDS or DAYS-HOURS"
}

job::image_file() {
  local folder found file="${IMAGE}"
  if [[ "${IMAGE}" != */* ]]; then
    folder="$(job::settings .folders.images)"
    folder="${folder:-${CONTAINER_IMAGES_DIR:-}}"
    [[ -n "${folder}" ]] || log::fail "this node has no folder of images; give --image the path of a .sqsh file"
    file="${folder}/${IMAGE%.sqsh}.sqsh"
  fi
  if [[ ! -r "${file}" ]]; then
    found="$(find "${file%/*}" -maxdepth 1 -name '[!.]*.sqsh' -printf '%f ' 2>/dev/null)" || true
    log::fail "no image ${file}. Imported images: ${found:-none}. Import one: import-container.sh IMAGE_URI NAME"
  fi
  printf '%s' "${file}"
}

job::submit() {
  base::need 1 sbatch sinfo
  local logs folder
  local -a options=(--export=ALL "${JOB_SBATCH[@]}" ${QUEUE:+"--partition=${QUEUE}"} ${NODES:+"--nodes=${NODES}"} ${TIME_LIMIT:+"--time=${TIME_LIMIT}"}
    ${NOTIFY:+"--mail-type=${NOTIFY}"} ${SBATCH_ACCOUNT:+"--account=${SBATCH_ACCOUNT}"} ${SBATCH_QOS:+"--qos=${SBATCH_QOS}"})
  [[ "${JOB_TEST_ONLY}" == no ]] || options+=(--test-only)
  if [[ -z "${OUTPUT}" ]]; then
    logs="$(job::settings .folders.logs)"
    [[ -n "${logs}" && -w "${logs}" ]] && OUTPUT="${logs}/%x-%j.out"
  fi
  [[ -n "${OUTPUT}" || -w . ]] || job::usage_error "you may not write to the current folder, where the job's output would go: change to another, or give --output FILE"
  # Slurm fails a job silently when it cannot open the output file. A folder with a % pattern or a relative one is not checked.
  folder="${OUTPUT%/*}"
  if [[ "${OUTPUT}" == /* && "${folder}" != *%* && ! (-d "${folder:-/}" && -w "${folder:-/}") ]]; then
    job::usage_error "the folder ${folder} for the job's output does not exist or is not writable: create it (mkdir -p ${folder}), or give --output FILE"
  fi
  export TRAINYARD_JOBS
  exec sbatch "${options[@]}" ${OUTPUT:+"--output=${OUTPUT}"} "${JOB_FILE}" "$@"
}

job::instance_type() {
  tr , '\n' <<<"${FEATURES}" | grep -E '^[a-z0-9-]+\.[0-9a-z-]+$' | head -n 1 || true
}

job::has_efa() {
  [[ ",${FEATURES}," == *,efa,* ]]
}

# srun_options: set SRUN, CONTAINER and GPUS. Steps get only the GPUs that they request, even in an exclusive job.
job::srun_options() {
  GPUS="${SLURM_GPUS_ON_NODE:-0}"
  SRUN=(srun)
  ((GPUS == 0)) || SRUN+=("--gpus-per-node=${GPUS}")
  CONTAINER=()
  [[ -n "${IMAGE}" ]] || return 0
  local file mount mounts="" scratch here=""
  # A shell's container is described on the head node, which does not know what its node has (enroot-mount.c, Enroot 4.1.2: nofail).
  [[ -n "${SLURM_JOB_ID:-}" ]] || here=":nofail+silent"
  file="$(job::image_file)"
  # Every file system under its own path, so that paths are the same inside and outside.
  while read -r mount; do
    [[ -z "${mount}" || "${mount}" == /home ]] || mounts+="${mount}:${mount},"
  done < <(job::settings '.mounts[].path')
  scratch="$([[ ! -r "${TRAINYARD_SETTINGS}" ]] || settings::scratch "${SLURM_JOB_PARTITION}")"
  [[ -z "${scratch}" || (-z "${here}" && ! -d "${scratch}") ]] || mounts+="${scratch}:${scratch}${here},"
  [[ -z "${here}" && ! -d /dev/infiniband ]] || mounts+="/dev/infiniband:/dev/infiniband${here},"
  job::is_mounted "${TRAINYARD_JOBS}" || mounts+="${TRAINYARD_JOBS%/*}:${TRAINYARD_JOBS%/*},"
  mounts+="${MOUNTS}"
  CONTAINER=("--container-image=${file}" "--container-mounts=${mounts%,}" --no-container-mount-home)
}

# is_mounted PATH: whether it is on a file system that containers get.
job::is_mounted() {
  local found
  # shellcheck disable=SC2016 # $mount and $path are jq's
  found="$(job::settings '.mounts[].path as $mount | select($mount != "/home" and ($path | startswith($mount + "/"))) | $mount' --arg path "$1")"
  [[ -n "${found}" ]]
}

# keep_environment VARIABLE...: the job's values win over the image's.
job::keep_environment() {
  local IFS=,
  ((${#CONTAINER[@]} == 0)) || CONTAINER+=("--container-env=$*")
}

# one_container [SECONDS]: unpack the image once on all nodes, in SECONDS (900) at most, for all steps of the job. Pyxis 0.24.0
# otherwise unpacks it for each step (pyxis_slurmstepd.c: enroot create), which with 30 GB can take most of a step's limit. The
# container ends with the job (steps/pyxis.sh).
job::one_container() {
  ((${#CONTAINER[@]} > 0)) || return 0
  local -r begun="${SECONDS}"
  CONTAINER+=("--container-name=job-${SLURM_JOB_ID}")
  # A node where this fails shows it in the steps that follow.
  timeout --kill-after=10 "${1:-900}" "${SRUN[@]}" --mpi=none --ntasks-per-node=1 "--ntasks=${NODES}" "${CONTAINER[@]}" sh -c true </dev/null ||
    log::warn "not every node started a container of ${IMAGE}; the steps that follow show which"
  log::info "${IMAGE} unpacked on ${NODES} nodes in $((SECONDS - begun)) s"
}

# node_step OUTPUT SECONDS NODE WORD...: run a step on a node for SECONDS at most.
job::node_step() {
  local -r output="$1" seconds="$2" node="$3"
  shift 3
  # A step that does not end must not hold up the next one: --overlap.
  timeout --kill-after=10 "${seconds}" "${SRUN[@]}" --overlap --mpi=none --nodes=1 "--nodelist=${node}" --kill-on-bad-exit=1 "$@" \
    >"${output}" 2>&1 </dev/null || printf '# srun ended with status %s\n' "$?" >>"${output}"
}

# own_folder FOLDER [NAME]: print FOLDER if this user owns it, else the user's folder in it; with NAME, the folder of that name below. With `people`,
# every user may make folders in the common ones: one that somebody else made first is refused, because what is read from it may be executed
# (pickles of checkpoints).
job::own_folder() {
  local folder="$1"
  if [[ -e "${folder}" && ! -O "${folder}" ]]; then
    folder+="/$(id -un)"
    job::make_own "${folder}"
  fi
  if [[ -n "${2:-}" ]]; then
    folder+="/$2"
    job::make_own "${folder}"
  fi
  printf '%s' "${folder}"
}

# make_own FOLDER: create FOLDER if it does not exist; fail if it, or the link of this name, is another user's. --test-only creates nothing.
job::make_own() {
  local owner
  [[ "${JOB_TEST_ONLY}" == no || "$0" == */slurm_script || -e "$1" ]] || return 0
  mkdir -p -- "$1" || log::fail "cannot create the folder $1"
  owner="$(stat -c %u -- "$1")"
  [[ -O "$1" && (! -L "$1" || "${owner}" == 0 || "${owner}" == "${EUID}") ]] ||
    log::fail "$1 belongs to $(stat -c %U -- "$1"), not to you: take another name, or ask an administrator to remove it"
}

job::results_folder() {
  local base="${RESULTS}"
  if [[ -z "${base}" ]]; then
    base="$(job::settings .folders.results)"
    base="$(job::own_folder "${base:-${SLURM_SUBMIT_DIR}}" checks)/${SLURM_JOB_NAME}/${SLURM_JOB_ID}"
  fi
  mkdir -p -- "${base}" || log::fail "cannot create the folder ${base}: give --results a folder that you may write to"
  printf '%s' "${base}"
}

# remove_own PATH NAME: remove a folder that this job created; its last part must be NAME, which contains the job's id.
job::remove_own() {
  local -r path="${1:-}" name="${2:-}"
  [[ -n "${path}" && -n "${name}" && "${path}" == /*/"${name}" && "${name}" == *"${SLURM_JOB_ID:?}"* && "${path}" != *..* ]] ||
    log::fail "will not remove '${path}': it is not this job's own '${name}'"
  [[ -e "${path}" ]] || return 0
  [[ -d "${path}" && ! -L "${path}" && -O "${path}" ]] || log::fail "will not remove '${path}': it is not a folder of ${USER:-$(id -un)}"
  rm -rf --one-file-system -- "${path}"
}

# features: those that ParallelCluster gives this node: its instance type, efa, gpu and others.
job::features() {
  scontrol show node "${SLURMD_NODENAME}" | sed -n 's/.*ActiveFeatures=//p'
}

job::main() {
  job::parse "$@"
  declare -F job::check >/dev/null && job::check
  if [[ "$0" == */slurm_script ]]; then
    NODES="${SLURM_JOB_NUM_NODES}"
    # slurmctld may be restarting.
    FEATURES="$(job::features || { sleep 15 && job::features; })" || log::fail "scontrol does not show the node ${SLURMD_NODENAME}: submit the job again"
    job::srun_options
    job::run
  else
    job::submit "$@"
  fi
}
