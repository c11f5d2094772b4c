# shellcheck shell=bash disable=SC2034
# What a registry says of an image before anything is fetched: the digest, and how large the layers are.
# OCI distribution specification: GET /v2/<repository>/manifests/<tag or digest>, with a bearer token or a password where it asks for one.

readonly REGISTRY_ACCEPT="application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json, \
application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"

# get URL [curl option...]: the body to IMPORT_WORK/body, the headers to IMPORT_WORK/headers, the status to REGISTRY_STATUS.
registry::get() {
  local -r url="$1"
  shift
  REGISTRY_STATUS="$(curl --silent --show-error --location --proto =https --connect-timeout 15 --max-time 60 --retry 3 \
    --dump-header "${IMPORT_WORK}/headers" --output "${IMPORT_WORK}/body" --write-out '%{http_code}' "$@" -- "${url}" 2>"${IMPORT_WORK}/curl")" ||
    log::fail 69 "${IMAGE_HOST} cannot be reached: $(tail -n 1 "${IMPORT_WORK}/curl"). Check the host's name, and that this node has a way out: a NAT gateway, or the VPC endpoints ecr.dkr, ecr.api and s3."
}

# secret NAME VALUE: a curl configuration on stdout, for a process substitution; printf is a builtin, so no argument holds the secret.
registry::secret() {
  local value="${2//\\/\\\\}"
  printf '%s = "%s"\n' "$1" "${value//\"/\\\"}"
}

# challenge KEY: a value of the WWW-Authenticate header of the last answer.
registry::challenge() {
  tr -d '\r' <"${IMPORT_WORK}/headers" | grep -i '^www-authenticate:' | tail -n 1 | grep -oiE "$1=\"[^\"]*\"" | head -n 1 | cut -d '"' -f 2 || true
}

# token: a bearer token of the realm that the last answer named.
registry::token() {
  local realm service scope secret options=()
  realm="$(registry::challenge realm)"
  service="$(registry::challenge service)"
  scope="$(registry::challenge scope)"
  [[ "${realm}" == https://* ]] || log::fail 77 "${IMAGE_HOST} asks for a login in a way that is not known here: $(grep -i '^www-authenticate:' "${IMPORT_WORK}/headers" | tail -n 1)"
  secret="$(credentials::of "$(cut -d / -f 3 <<<"${realm}")")"
  [[ -n "${secret}" ]] || secret="$(credentials::of "${IMAGE_HOST}")"
  [[ -z "${service}" ]] || options+=(--data-urlencode "service=${service}")
  options+=(--data-urlencode "scope=${scope:-repository:${IMAGE_REPOSITORY}:pull}")
  if [[ -n "${secret}" ]]; then
    registry::get "${realm}" --get "${options[@]}" --config <(registry::secret user "${secret}")
  else
    registry::get "${realm}" --get "${options[@]}"
  fi
  [[ "${REGISTRY_STATUS}" == 200 ]] || registry::refused
  jq -er '.token // .access_token' "${IMPORT_WORK}/body" 2>/dev/null || log::fail 69 "${realm} gave no token"
}

# manifest REFERENCE: a manifest to IMPORT_WORK/body. The way in that worked is kept in REGISTRY_HEADER for the next.
registry::manifest() {
  local -r url="https://${IMAGE_HOST}/v2/${IMAGE_REPOSITORY}/manifests/$1"
  local secret
  if [[ -n "${REGISTRY_HEADER:-}" ]]; then
    registry::get "${url}" --header "Accept: ${REGISTRY_ACCEPT}" --config <(registry::secret "${REGISTRY_HEADER%%=*}" "${REGISTRY_HEADER#*=}")
  else
    registry::get "${url}" --header "Accept: ${REGISTRY_ACCEPT}"
  fi
  if [[ "${REGISTRY_STATUS}" == 401 && -z "${REGISTRY_HEADER:-}" ]]; then
    if grep -qiE '^www-authenticate:[[:space:]]*bearer' "${IMPORT_WORK}/headers"; then
      secret="$(registry::token)"
      REGISTRY_HEADER="header=Authorization: Bearer ${secret}"
    else
      secret="$(credentials::of "${IMAGE_HOST}")"
      [[ -n "${secret}" ]] || registry::refused
      REGISTRY_HEADER="user=${secret}"
    fi
    registry::manifest "$1"
    return 0
  fi
  [[ "${REGISTRY_STATUS}" == 200 ]] || registry::refused
}

# refused: says what an answer other than 200 means, and ends.
registry::refused() {
  local -r image="$(reference::written)"
  local answer
  answer="$(jq -r '.errors[0] | "\(.code): \(.message)"' "${IMPORT_WORK}/body" 2>/dev/null || true)"
  case "${REGISTRY_STATUS}" in
    401) log::fail 77 "not logged in at ${IMAGE_HOST} (401${answer:+, ${answer}}). Give Enroot your user and password: a line 'machine ${IMAGE_HOST%:*} login USER password WORD' in $(credentials::file), mode 600." ;;
    403) log::fail 77 "${IMAGE_HOST} does not let you read ${IMAGE_REPOSITORY} (403${answer:+, ${answer}}). On ECR the node's role needs ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on that repository; the cluster's nodes have them for the environment's own repositories." ;;
    404)
      if [[ "${answer}" == NAME_UNKNOWN* ]]; then
        log::fail 66 "no repository ${IMAGE_REPOSITORY} at ${IMAGE_HOST} (404, ${answer}). Check its name; the environment's are in ECR_REPO_URI of ~/pcluster-env.sh."
      fi
      log::fail 66 "no image ${image} (404${answer:+, ${answer}}). Check the tag; on ECR: aws ecr describe-images --repository-name ${IMAGE_REPOSITORY}"
      ;;
    429) log::fail 69 "${IMAGE_HOST} turns requests away for a while (429${answer:+, ${answer}}). Try again later, or log in: anonymous pulls have low limits." ;;
    *) log::fail 69 "${IMAGE_HOST} answers ${REGISTRY_STATUS} for ${image}${answer:+: ${answer}}. Try again; if it stays, ask who runs the registry." ;;
  esac
}

registry::body_digest() {
  local sum
  sum="$(sha256sum "${IMPORT_WORK}/body")"
  printf 'sha256:%s' "${sum%% *}"
}

# inspect: sets REGISTRY_DIGEST (what the tag names), REGISTRY_MANIFEST (the manifest for this node's processor, the same unless the
# image is for several), and REGISTRY_BYTES (its layers, compressed).
registry::inspect() {
  local platform
  registry::manifest "${IMAGE_DIGEST:-${IMAGE_TAG}}"
  REGISTRY_DIGEST="$(registry::body_digest)"
  [[ -z "${IMAGE_DIGEST}" || "${IMAGE_DIGEST}" == "${REGISTRY_DIGEST}" ]] ||
    log::fail 65 "${IMAGE_HOST} answered with a manifest of digest ${REGISTRY_DIGEST} for ${IMAGE_DIGEST}: something between here and the registry changes what it sends"
  REGISTRY_MANIFEST="${REGISTRY_DIGEST}"
  if jq -e 'has("manifests")' "${IMPORT_WORK}/body" >/dev/null 2>&1; then
    platform="$(registry::architecture)"
    # shellcheck disable=SC2016 # $platform is jq's
    REGISTRY_MANIFEST="$(jq -r --arg platform "${platform}" 'first(.manifests[] | select(.platform.os == "linux" and .platform.architecture == $platform) | .digest) // empty' "${IMPORT_WORK}/body")"
    [[ -n "${REGISTRY_MANIFEST}" ]] ||
      log::fail 66 "$(reference::written) is not for linux/${platform}, only for $(jq -r '[.manifests[].platform | "\(.os)/\(.architecture)"] | join(", ")' "${IMPORT_WORK}/body"). Build it for this processor."
    registry::manifest "${REGISTRY_MANIFEST}"
    [[ "$(registry::body_digest)" == "${REGISTRY_MANIFEST}" ]] || log::fail 65 "${IMAGE_HOST} answered with another manifest than ${REGISTRY_MANIFEST}"
  fi
  REGISTRY_BYTES="$(jq -er '[.layers[].size] | add' "${IMPORT_WORK}/body" 2>/dev/null)" ||
    log::fail 66 "$(reference::written) is no container image: its manifest ($(jq -r '.mediaType // "without a media type"' "${IMPORT_WORK}/body" 2>/dev/null)) names no layers"
}

# architecture: this node's processor, as images name it.
registry::architecture() {
  case "$(uname -m)" in
    x86_64) printf amd64 ;;
    aarch64) printf arm64 ;;
    *) uname -m ;;
  esac
}
