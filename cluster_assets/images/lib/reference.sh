# shellcheck shell=bash disable=SC2034
# What people write for an image, taken apart: HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST], as for `docker pull`. Enroot's docker:// and
# HOST#REPOSITORY are taken too.

readonly REFERENCE_DOCKER_HUB=registry-1.docker.io

# parse TEXT: sets IMAGE_HOST, IMAGE_REPOSITORY, IMAGE_TAG (empty where only a digest is given), IMAGE_DIGEST (empty where none is given).
reference::parse() {
  local -r given="$1"
  local text="${given#docker://}" host=""
  [[ "${text}" != *#* ]] || text="${text%%#*}/${text#*#}"
  IMAGE_TAG="" IMAGE_DIGEST=""
  if [[ "${text}" == *@* ]]; then
    IMAGE_DIGEST="${text##*@}"
    text="${text%@*}"
    [[ "${IMAGE_DIGEST}" =~ ^sha256:[0-9a-f]{64}$ ]] ||
      log::fail 64 "'${IMAGE_DIGEST}' in '${given}' is no digest: give @sha256: and 64 hexadecimal digits, or a tag"
  fi
  # Docker's rule: what stands before the first slash is a host if it has a dot or a port, or is localhost.
  if [[ "${text}" == */* && ("${text%%/*}" == *[.:]* || "${text%%/*}" == localhost) ]]; then
    host="${text%%/*}"
    text="${text#*/}"
  fi
  if [[ "${text}" == *:* ]]; then
    IMAGE_TAG="${text##*:}"
    text="${text%:*}"
    [[ "${IMAGE_TAG}" =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] ||
      log::fail 64 "'${IMAGE_TAG}' in '${given}' is no tag: give up to 128 letters, digits, dots, _ and -, first no dot and no -"
  elif [[ -z "${IMAGE_DIGEST}" ]]; then
    IMAGE_TAG=latest
  fi
  IMAGE_HOST="${host:-${REFERENCE_DOCKER_HUB}}"
  IMAGE_REPOSITORY="${text}"
  [[ "${IMAGE_HOST}" =~ ^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$ && "${IMAGE_REPOSITORY}" =~ ^[a-z0-9]+([._/-]+[a-z0-9]+)*$ ]] ||
    log::fail 64 "'${given}' is no image: give HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:DIGEST, for example 111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training-custom:latest"
  if [[ "${IMAGE_HOST}" == "${REFERENCE_DOCKER_HUB}" && "${IMAGE_REPOSITORY}" != */* ]]; then
    IMAGE_REPOSITORY="library/${IMAGE_REPOSITORY}"
  fi
}

# written: the reference in its full form.
reference::written() {
  printf '%s/%s%s%s' "${IMAGE_HOST}" "${IMAGE_REPOSITORY}" "${IMAGE_TAG:+:${IMAGE_TAG}}" "${IMAGE_DIGEST:+@${IMAGE_DIGEST}}"
}

# check_name NAME: the name becomes that of a file.
reference::check_name() {
  [[ "$1" != *.sqsh ]] || log::fail 64 "give the name without .sqsh: '${1%.sqsh}'"
  [[ "$1" =~ ^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$ ]] ||
    log::fail 64 "'$1' is no name for an image: give up to 128 letters, digits, dots, _, + and -, first a letter or a digit"
}
