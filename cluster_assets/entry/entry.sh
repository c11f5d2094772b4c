#!/usr/bin/env bash
# The one script that ParallelCluster runs as a custom action: entry.sh ASSETS_BUCKET ROLE REGION
#
# It fetches and verifies the bundle that cluster/current.json names and runs the steps of the node's role. Its S3 key and arguments must never
# change: ParallelCluster refuses an update that touches them. stderr carries only the reason of a failure, which ParallelCluster puts into a
# compute node's bootstrap event; everything else goes to stdout and the log.
#
# Exit codes: 64 wrong arguments, 65 the bundle or the settings fail verification, 69 they cannot be fetched,
# 70 a step failed, 72 a command is missing, 75 another run holds the lock.
set -euo pipefail
umask 022

# Overridable for tests and manual repair.
TRAINYARD_ROOT="${TRAINYARD_ROOT:-}"
TRAINYARD_FETCH_ATTEMPTS="${TRAINYARD_FETCH_ATTEMPTS:-6}"
TRAINYARD_FETCH_PAUSE_MS="${TRAINYARD_FETCH_PAUSE_MS:-1000}" # upper bound before the second attempt; doubles each time
TRAINYARD_LOCK_SECONDS="${TRAINYARD_LOCK_SECONDS:-900}"
TRAINYARD_LOG="${TRAINYARD_LOG:-${TRAINYARD_ROOT}/var/log/trainyard/bootstrap.log}"
TRAINYARD_ERROR_FILE="${TRAINYARD_ERROR_FILE:-${TRAINYARD_ROOT}/var/log/parallelcluster/bootstrap_error_msg}"
export TRAINYARD_ROOT TRAINYARD_LOG

readonly HOME_FOLDER="${TRAINYARD_ROOT}/opt/trainyard"
export PATH="${PATH}:/usr/local/bin:/opt/slurm/bin:/usr/sbin:/sbin"
export AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=3

entry::log() {
  TZ=UTC printf '%(%FT%TZ)T trainyard: %s\n' -1 "$*" | tee -a "${TRAINYARD_LOG}"
}

# On a head node ParallelCluster ignores the script's stderr and, after the script ends, overwrites the file that becomes the failure message
# of the CloudFormation stack. A background process appends the reason to that file once it is overwritten.
entry::append_to_failure_message() {
  local -r reason="$1" marker="${TRAINYARD_ERROR_FILE}.trainyard"
  mkdir -p "${TRAINYARD_ERROR_FILE%/*}" && : >"${marker}" || return 0
  setsid bash -c '
    file="$1" marker="$2" reason="$3"
    for _ in {1..150}; do
      if [[ "${file}" -nt "${marker}" ]]; then
        sleep 0.1
        printf "trainyard: %s\n" "${reason}" >>"${file}"
        break
      fi
      sleep 0.1
    done
    rm -f "${marker}"
  ' trainyard-reason "${TRAINYARD_ERROR_FILE}" "${marker}" "${reason}" </dev/null >/dev/null 2>&1 9>&- &
}

# fail CODE REASON
entry::fail() {
  local -r code="$1" reason="${2//$'\n'/ }"
  entry::log "FAILED: ${reason}" || true
  if command -v logger >/dev/null && [[ -z "${TRAINYARD_ROOT}" ]]; then
    logger -t trainyard -p user.err -- "${reason}" || true
  fi
  [[ "${ROLE:-}" == head-configured ]] && entry::append_to_failure_message "${reason}"
  printf '%s\n' "${reason}" >&2
  exit "${code}"
}

# fetch KEY FILE: bounded attempts with random pauses whose bound doubles, so that nodes that start together spread out. A missing object
# or bucket fails at once; a refusal is retried, because a new role takes a moment to work.
entry::fetch() {
  local -r key="$1" file="$2" uri="s3://${BUCKET}/$1"
  local attempt bound="${TRAINYARD_FETCH_PAUSE_MS}" pause answer=""
  for ((attempt = 1; attempt <= TRAINYARD_FETCH_ATTEMPTS; attempt++)); do
    if answer="$(aws s3 cp --region "${REGION}" --only-show-errors --cli-connect-timeout 10 --cli-read-timeout 60 \
      "${uri}" "${file}" 2>&1)"; then
      return 0
    fi
    case "${answer}" in
      *NoSuchBucket* | *NoSuchKey* | *"(404)"*) break ;;
    esac
    ((attempt < TRAINYARD_FETCH_ATTEMPTS)) || break
    pause=$((bound * (RANDOM % 1000 + 1) / 1000))
    bound=$((bound * 2))
    entry::log "attempt ${attempt} of ${TRAINYARD_FETCH_ATTEMPTS} to fetch ${uri} failed, next in ${pause} ms: ${answer}"
    sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
  done
  entry::fail 69 "cannot fetch ${uri} (attempt ${attempt} of ${TRAINYARD_FETCH_ATTEMPTS}): ${answer:-no answer}. Check that the \
assets are published and that the node's role may read cluster/* of the bucket."
}

# install_bundle SHA256 KEY: unpack the verified bundle to ${HOME_FOLDER}/<sha256>.
entry::install_bundle() {
  local -r sha256="$1" key="$2"
  local found
  if [[ -d "${HOME_FOLDER}/${sha256}" ]]; then
    entry::log "bundle ${sha256} is already installed"
    return 0
  fi
  entry::fetch "${key}" "${WORK}/bundle.tar"
  found="$(sha256sum "${WORK}/bundle.tar")"
  found="${found%% *}"
  if [[ "${found}" != "${sha256}" ]]; then
    entry::fail 65 "s3://${BUCKET}/${key} has SHA-256 ${found}, cluster/current.json says ${sha256}: nothing was run. Publish the assets again."
  fi
  mkdir "${WORK}/bundle"
  tar --extract --file="${WORK}/bundle.tar" --directory="${WORK}/bundle" --no-same-owner ||
    entry::fail 65 "s3://${BUCKET}/${key} cannot be unpacked, though its checksum is right: publish the assets again, and look for a full disk."
  mv -T "${WORK}/bundle" "${HOME_FOLDER}/${sha256}"
}

entry::main() {
  [[ $# -eq 3 ]] || entry::fail 64 "entry.sh takes ASSETS_BUCKET ROLE REGION, got $# arguments: $*"
  readonly BUCKET="$1" ROLE="$2" REGION="$3"
  [[ "${BUCKET}" =~ ^[a-z0-9][a-z0-9.-]+[a-z0-9]$ ]] || entry::fail 64 "'${BUCKET}' is not a bucket name"
  [[ "${ROLE}" =~ ^[a-z]+(-[a-z]+)*$ ]] || entry::fail 64 "'${ROLE}' is not a role: give lower-case words joined by hyphens"
  [[ "${REGION}" =~ ^[a-z]+(-[a-z]+)+-[0-9]+$ ]] || entry::fail 64 "'${REGION}' is not an AWS region"

  local name
  for name in aws flock jq setsid sha256sum tar; do
    command -v "${name}" >/dev/null || entry::fail 72 "the command '${name}' is missing on this node: use an official ParallelCluster AMI, or add it to yours"
  done

  mkdir -p "${HOME_FOLDER}"
  # Whoever can read a file can lock it.
  umask 077
  exec 9>>"${HOME_FOLDER}/.lock"
  chmod 0600 "${HOME_FOLDER}/.lock"
  umask 022
  flock --wait "${TRAINYARD_LOCK_SECONDS}" 9 ||
    entry::fail 75 "another run of the bootstrap held ${HOME_FOLDER}/.lock for ${TRAINYARD_LOCK_SECONDS} s; see ${TRAINYARD_LOG}"
  WORK="$(mktemp -d "${HOME_FOLDER}/.work.XXXXXX")"
  trap 'rm -rf -- "${WORK}"' EXIT
  entry::log "role ${ROLE}, assets s3://${BUCKET}, region ${REGION}"

  entry::fetch cluster/current.json "${WORK}/current.json"
  local bundle sha256 settings
  {
    read -r bundle && read -r sha256 && read -r settings
  } < <(jq -er '.bundle, .sha256, .settings | strings' "${WORK}/current.json" 2>/dev/null) ||
    entry::fail 65 "s3://${BUCKET}/cluster/current.json does not name bundle, sha256 and settings: publish the assets again"
  [[ "${sha256}" =~ ^[0-9a-f]{64}$ && "${bundle}" == "cluster/bundles/${sha256}.tar" && "${settings}" =~ ^cluster/[a-z0-9.-]+\.json$ ]] ||
    entry::fail 65 "s3://${BUCKET}/cluster/current.json names bundle '${bundle}', sha256 '${sha256}', settings '${settings}': publish the assets again"

  entry::install_bundle "${sha256}" "${bundle}"
  entry::fetch "${settings}" "${WORK}/settings.json"
  jq -e --arg region "${REGION}" '.schema == 1 and .region == $region' "${WORK}/settings.json" >/dev/null 2>&1 ||
    entry::fail 65 "s3://${BUCKET}/${settings} is not of schema 1 and region ${REGION}: nothing was run. Publish the assets again."
  chmod 0644 "${WORK}/settings.json"
  mv -T "${WORK}/settings.json" "${HOME_FOLDER}/settings.json"
  ln -s "${sha256}" "${WORK}/current"
  mv -T "${WORK}/current" "${HOME_FOLDER}/current"

  # The steps' stdout passes through; their stderr is the reason.
  local reason
  if { reason="$(bash "${HOME_FOLDER}/${sha256}/lib/run.sh" "${ROLE}" 2>&1 1>&3 9>&-)"; } 3>&1; then
    entry::log "role ${ROLE} is done, bundle ${sha256}"
  else
    entry::fail 70 "${reason:-the steps of role ${ROLE} failed without a reason, see ${TRAINYARD_LOG}}"
  fi
}

mkdir -p "${TRAINYARD_LOG%/*}"
entry::main "$@"
