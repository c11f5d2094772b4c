# shellcheck disable=SC2034
# The image's name, the login to its registry, and what the registry reports about it. Needs base.sh.

# --- reference: HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST] as for `docker pull`; also Enroot's docker:// and HOST#REPOSITORY.

readonly REFERENCE_DOCKER_HUB=registry-1.docker.io

# parse TEXT: sets IMAGE_HOST, IMAGE_REPOSITORY, IMAGE_TAG (empty if only a digest is given) and IMAGE_DIGEST (empty if none is given).
reference::parse() {
  local -r given="$1"
  local text="${given#docker://}" host=""
  [[ "${text}" != *#* ]] || text="${text%%#*}/${text#*#}"
  IMAGE_TAG="" IMAGE_DIGEST=""
  if [[ "${text}" == *@* ]]; then
    IMAGE_DIGEST="${text##*@}"
    text="${text%@*}"
    [[ "${IMAGE_DIGEST}" =~ ^sha256:[0-9a-f]{64}$ ]] ||
      log::exit 64 "'${IMAGE_DIGEST}' in '${given}' is not a digest: give @sha256: and 64 hexadecimal digits, or a tag"
  fi
  # Docker's rule: the part before the first slash is a host if it has a dot or a port, or is localhost.
  if [[ "${text}" == */* && ("${text%%/*}" == *[.:]* || "${text%%/*}" == localhost) ]]; then
    host="${text%%/*}"
    text="${text#*/}"
  fi
  if [[ "${text}" == *:* ]]; then
    IMAGE_TAG="${text##*:}"
    text="${text%:*}"
    [[ "${IMAGE_TAG}" =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] ||
      log::exit 64 "'${IMAGE_TAG}' in '${given}' is not a tag: give up to 128 letters, digits, dots, _ and -; the first is not a dot or -"
  elif [[ -z "${IMAGE_DIGEST}" ]]; then
    IMAGE_TAG=latest
  fi
  IMAGE_HOST="${host:-${REFERENCE_DOCKER_HUB}}"
  IMAGE_REPOSITORY="${text}"
  [[ "${IMAGE_HOST}" =~ ^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$ && "${IMAGE_REPOSITORY}" =~ ^[a-z0-9]+([._/-]+[a-z0-9]+)*$ ]] ||
    log::exit 64 "'${given}' is not an image: give HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:DIGEST, for example 111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training-custom:latest"
  if [[ "${IMAGE_HOST}" == "${REFERENCE_DOCKER_HUB}" && "${IMAGE_REPOSITORY}" != */* ]]; then
    IMAGE_REPOSITORY="library/${IMAGE_REPOSITORY}"
  fi
}

reference::written() {
  printf '%s/%s%s%s' "${IMAGE_HOST}" "${IMAGE_REPOSITORY}" "${IMAGE_TAG:+:${IMAGE_TAG}}" "${IMAGE_DIGEST:+@${IMAGE_DIGEST}}"
}

reference::check_name() {
  [[ "$1" != *.sqsh ]] || log::exit 64 "give the name without .sqsh: '${1%.sqsh}'"
  [[ "$1" =~ ^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$ ]] ||
    log::exit 64 "'$1' is not an image name: give up to 128 letters, digits, dots, _, + and -; the first is a letter or a digit"
}

# --- credentials: passwords are only in variables and pipes, never in arguments, logs, the environment, or files that others may read.
# Enroot gets a credentials file whose password is a command.

# enroot_value NAME: a setting of Enroot, from the environment or from its files, which the shell expands as Enroot does.
credentials::enroot_value() {
  local -r name="$1"
  local value="${!name:-}" file
  if [[ -z "${value}" ]]; then
    for file in "${IMPORT_ENROOT_CONF}" "${IMPORT_ENROOT_CONF}".d/*.conf; do
      [[ -r "${file}" ]] || continue
      value="$(awk -v name="${name}" '$1 == name { sub(/^[ \t]*[^ \t]+[ \t]+/, ""); found = $0 } END { print found }' "${file}")"
      [[ -z "${value}" ]] || break
    done
    # Only root writes these files, and Enroot expands them the same way.
    [[ -z "${value}" ]] || value="$(eval "printf '%s' \"${value}\"")"
  fi
  printf '%s' "${value}"
}

# file: the credentials file that Enroot reads.
credentials::file() {
  local folder
  folder="$(credentials::enroot_value ENROOT_CONFIG_PATH)"
  printf '%s/.credentials' "${folder:-${XDG_CONFIG_HOME:-${HOME}/.config}/enroot}"
}

# line HOST: the host's line of the credentials file, unexpanded. For a private ECR registry without one, a line with the AWS CLI's login.
credentials::line() {
  local file line=""
  file="$(credentials::file)"
  [[ ! -r "${file}" ]] || line="$(awk -v host="${1%:*}" '$1 == "machine" && $2 == host && $3 == "login" && $5 == "password" && !found++' "${file}")"
  if [[ -z "${line}" && "$1" =~ ^[0-9]{12}\.dkr[.-]ecr(-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)$ ]]; then
    line="machine $1 login AWS password \$(aws ecr get-login-password --region ${BASH_REMATCH[2]})"
  fi
  printf '%s' "${line}"
}

# of HOST: "user:password"; nothing if none is known.
credentials::of() {
  local -r host="$1" problem="${IMPORT_WORK}/login"
  local line user password
  line="$(credentials::line "${host}")"
  [[ -n "${line}" ]] || return 0
  read -r _ _ _ user _ password <<<"${line}"
  # The password may be a command, as in Enroot; the file belongs to this user or to the system.
  password="$(eval "printf '%s' \"${password}\"" 2>"${problem}")" || password=""
  [[ -n "${password}" ]] ||
    log::exit 77 "no password for ${user} at ${host}: $(grep -v '^[[:space:]]*$' "${problem}" | tail -n 1). On ECR the node's role needs ecr:GetAuthorizationToken; \
to log in with another identity, set AWS_PROFILE. A line for the host in $(credentials::file) wins: correct it if there is one."
  printf '%s:%s' "${user}" "${password}"
}

# for_enroot HOST: "USER FOLDER" for Enroot's URI and ENROOT_CONFIG_PATH.
credentials::for_enroot() {
  local line folder user
  line="$(credentials::line "$1")"
  [[ -n "${line}" ]] || return 0
  folder="$(dirname "$(credentials::file)")"
  if ! grep -qsxF -- "${line}" "${folder}/.credentials"; then
    folder="${IMPORT_WORK}/enroot"
    (umask 077 && mkdir -p "${folder}" && printf '%s\n' "${line}" >"${folder}/.credentials")
  fi
  read -r _ _ _ user _ <<<"${line}"
  printf '%s %s' "${user}" "${folder}"
}

# --- registry: OCI distribution specification, GET /v2/<repository>/manifests/<tag or digest>, with a bearer token or a password.

readonly REGISTRY_ACCEPT="application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json, \
application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"

# get URL [CURL_OPTION...]: body to IMPORT_WORK/body, headers to IMPORT_WORK/headers, status to REGISTRY_STATUS.
registry::get() {
  local -r url="$1"
  shift
  REGISTRY_STATUS="$(curl --silent --show-error --location --proto =https --connect-timeout 15 --max-time 60 --retry 3 \
    --dump-header "${IMPORT_WORK}/headers" --output "${IMPORT_WORK}/body" --write-out '%{http_code}' "$@" -- "${url}" 2>"${IMPORT_WORK}/curl")" ||
    log::exit 69 "${IMAGE_HOST} cannot be reached: $(tail -n 1 "${IMPORT_WORK}/curl"). Check the host name, and this node's route: a NAT gateway, or the VPC endpoints ecr.dkr, ecr.api and s3."
}

# secret NAME VALUE: a curl configuration for a process substitution; printf is a builtin, so no process argument holds the secret.
registry::secret() {
  local value="${2//\\/\\\\}"
  printf '%s = "%s"\n' "$1" "${value//\"/\\\"}"
}

# challenge KEY: a value of the last response's WWW-Authenticate header.
registry::challenge() {
  tr -d '\r' <"${IMPORT_WORK}/headers" | grep -i '^www-authenticate:' | tail -n 1 | grep -oiE "$1=\"[^\"]*\"" | head -n 1 | cut -d '"' -f 2 || true
}

# token: a bearer token from the realm of the last response.
registry::token() {
  local realm service scope secret options=()
  realm="$(registry::challenge realm)"
  service="$(registry::challenge service)"
  scope="$(registry::challenge scope)"
  [[ "${realm}" == https://* ]] || log::exit 77 "${IMAGE_HOST} requires an unsupported kind of login: $(grep -i '^www-authenticate:' "${IMPORT_WORK}/headers" | tail -n 1)"
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
  jq -er '.token // .access_token' "${IMPORT_WORK}/body" 2>/dev/null || log::exit 69 "${realm} returned no token"
}

# manifest REFERENCE: a manifest to IMPORT_WORK/body. REGISTRY_HEADER keeps the login that worked for the next call.
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

registry::refused() {
  local -r image="$(reference::written)"
  local answer
  answer="$(jq -r '.errors[0] | "\(.code): \(.message)"' "${IMPORT_WORK}/body" 2>/dev/null || true)"
  case "${REGISTRY_STATUS}" in
    401) log::exit 77 "not logged in at ${IMAGE_HOST} (401${answer:+, ${answer}}). Give Enroot your user and password: a line 'machine ${IMAGE_HOST%:*} login USER password WORD' in $(credentials::file), mode 600." ;;
    403) log::exit 77 "${IMAGE_HOST} denies access to ${IMAGE_REPOSITORY} (403${answer:+, ${answer}}). On ECR the node's role needs ecr:BatchGetImage and ecr:GetDownloadUrlForLayer on that repository; the cluster's nodes have them for the environment's own repositories." ;;
    404)
      if [[ "${answer}" == NAME_UNKNOWN* ]]; then
        log::exit 66 "no repository ${IMAGE_REPOSITORY} at ${IMAGE_HOST} (404, ${answer}). Check its name; the environment's are in ECR_REPO_URI of ~/pcluster-env.sh."
      fi
      log::exit 66 "no image ${image} (404${answer:+, ${answer}}). Check the tag; on ECR: aws ecr describe-images --repository-name ${IMAGE_REPOSITORY}"
      ;;
    429) log::exit 69 "${IMAGE_HOST} rejects requests for a while (429${answer:+, ${answer}}). Try again later, or log in: anonymous pulls have low limits." ;;
    *) log::exit 69 "${IMAGE_HOST} answers ${REGISTRY_STATUS} for ${image}${answer:+: ${answer}}. Try again; if it persists, ask the registry's operator." ;;
  esac
}

registry::body_digest() {
  local sum
  sum="$(sha256sum "${IMPORT_WORK}/body")"
  printf 'sha256:%s' "${sum%% *}"
}

# inspect: sets REGISTRY_DIGEST (of the tag), REGISTRY_MANIFEST (for this node's architecture; the same unless the image has several) and
# REGISTRY_BYTES (its compressed layers).
registry::inspect() {
  local platform
  registry::manifest "${IMAGE_DIGEST:-${IMAGE_TAG}}"
  REGISTRY_DIGEST="$(registry::body_digest)"
  [[ -z "${IMAGE_DIGEST}" || "${IMAGE_DIGEST}" == "${REGISTRY_DIGEST}" ]] ||
    log::exit 65 "${IMAGE_HOST} answered with a manifest of digest ${REGISTRY_DIGEST} for ${IMAGE_DIGEST}: a proxy between here and the registry changes the content"
  REGISTRY_MANIFEST="${REGISTRY_DIGEST}"
  if jq -e 'has("manifests")' "${IMPORT_WORK}/body" >/dev/null 2>&1; then
    platform="$(registry::architecture)"
    REGISTRY_MANIFEST="$(jq -r --arg platform "${platform}" 'first(.manifests[] | select(.platform.os == "linux" and .platform.architecture == $platform) | .digest) // empty' "${IMPORT_WORK}/body")"
    [[ -n "${REGISTRY_MANIFEST}" ]] ||
      log::exit 66 "$(reference::written) is not for linux/${platform}, only for $(jq -r '[.manifests[].platform | "\(.os)/\(.architecture)"] | join(", ")' "${IMPORT_WORK}/body"). Build it for this architecture."
    registry::manifest "${REGISTRY_MANIFEST}"
    [[ "$(registry::body_digest)" == "${REGISTRY_MANIFEST}" ]] || log::exit 65 "${IMAGE_HOST} answered with another manifest than ${REGISTRY_MANIFEST}"
  fi
  REGISTRY_BYTES="$(jq -er '[.layers[].size] | add' "${IMPORT_WORK}/body" 2>/dev/null)" ||
    log::exit 66 "$(reference::written) is not a container image: its manifest ($(jq -r '.mediaType // "without a media type"' "${IMPORT_WORK}/body" 2>/dev/null)) names no layers"
}

registry::architecture() {
  case "$(uname -m)" in
    x86_64) printf amd64 ;;
    aarch64) printf arm64 ;;
    *) uname -m ;;
  esac
}
