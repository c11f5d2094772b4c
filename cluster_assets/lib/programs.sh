# Installs programs that monitoring/programs.json pins. Needs common.sh, jq and curl.
# An image or a network without internet access may bring them: /opt/trainyard/programs/<name> on the node is used as it is, and the object
# cluster/programs/<file name of the URL> of the assets bucket before the release. Checksums hold for both downloads.

readonly PROGRAMS="${TRAINYARD_ROOT}/opt/trainyard/programs"
readonly PROGRAMS_FILE="${TRAINYARD_PROGRAMS_FILE:-${TRAINYARD_LIB}/../monitoring/programs.json}"

# files NAME: URL and SHA-256 of each file of a program for this operating system, one per line; those of this machine's architecture first.
programs::files() {
  local family=rpm
  ! command -v dpkg-deb >/dev/null || family=deb
  jq -r --arg family "${family}" --arg machine "$(uname -m)" --arg name "$1" '
    .[$name].files | to_entries | map(select(.key | startswith($family + "-") or (contains("-") | not)))
    | sort_by(.key | endswith($machine) | not)[] | "\(.value.url) \(.value.sha256) \(.key | endswith($machine))"
  ' "${PROGRAMS_FILE}"
}

# shared: the folder that the head node fills and compute nodes copy from; nothing without a shared file system.
programs::shared() {
  local base
  base="$(settings::get .bases.shared)"
  [[ -z "${base}" ]] || printf '%s%s/monitoring' "${TRAINYARD_ROOT}" "${base}"
}

# check FILE SHA256 ORIGIN
programs::check() {
  local found
  found="$(sha256sum "$1")"
  [[ "${found%% *}" == "$2" ]] || log::fail "$3 has SHA-256 ${found%% *}, but ${PROGRAMS_FILE##*/} says $2: nothing of it was installed"
}

# download URL SHA256 TARGET
programs::download() {
  local -r url="$1" bucket="$(settings::get .buckets.assets)" region="$(settings::get .region)"
  local -r object="s3://${bucket}/cluster/programs/${url##*/}" temporary="$3.tmp.$$"
  local origin="${object}"
  # shellcheck disable=SC2064 # the value of now
  trap "rm -f -- '${temporary}'" EXIT
  if ! aws s3 cp --region "${region}" --only-show-errors --cli-connect-timeout 10 --cli-read-timeout 60 "${object}" "${temporary}" 2>/dev/null; then
    origin="${url}"
    curl --fail --silent --show-error --location --connect-timeout 10 --max-time 120 --output "${temporary}" "${url}" ||
      log::fail "cannot fetch ${url}; without internet access copy that file to ${object}"
  fi
  programs::check "${temporary}" "$2" "${origin}"
  chmod 0644 "${temporary}"
  mv -fT "${temporary}" "$3"
  log::info "fetched ${origin}"
}

# share NAME: the head node puts the files of all architectures into the shared folder. Runs in a shell of its own, for the trap of download.
programs::share() (
  shared="$(programs::shared)"
  [[ -n "${shared}" ]] || return 0
  files::folder "${shared}" 0755
  while read -r url sha256 _; do
    [[ -f "${shared}/${sha256}" ]] || programs::download "${url}" "${sha256}" "${shared}/${sha256}"
  done < <(programs::files "$1")
)

# install NAME PATH: unpack a program, whose file is PATH in its archive, and link it as ${PROGRAMS}/NAME. Runs in a shell of its own.
programs::install() (
  link="${PROGRAMS}/$1"
  [[ ! -x "${link}" || "$(readlink "${link}")" == [0-9a-f]*/* ]] || return 0
  read -r url sha256 mine < <(programs::files "$1") || true
  [[ "${mine:-}" == true ]] || log::fail "${PROGRAMS_FILE##*/} has no $1 for $(uname -m) and this operating system"
  if [[ ! -x "${PROGRAMS}/${sha256}/$2" ]]; then
    mkdir -p "${PROGRAMS}"
    archive="${PROGRAMS}/${url##*/}"
    shared="$(programs::shared)"
    if [[ -f "${shared}/${sha256}" ]]; then
      cp "${shared}/${sha256}" "${archive}"
      programs::check "${archive}" "${sha256}" "${shared}/${sha256}"
    elif [[ -z "${shared}" ]]; then
      programs::download "${url}" "${sha256}" "${archive}"
    else
      log::fail "${shared}/${sha256} is missing: the head node puts $1 there when it runs its bootstrap"
    fi
    staged="$(mktemp -d "${PROGRAMS}/.staged.XXXXXX")"
    case "${archive}" in
      *.deb) dpkg-deb --extract "${archive}" "${staged}" ;;
      *.rpm) rpm2cpio "${archive}" | (cd "${staged}" && cpio --extract --make-directories --quiet) ;;
      *) tar --extract --gzip --file "${archive}" --directory "${staged}" --strip-components 1 --no-same-owner ;;
    esac
    chmod 0755 "${staged}"
    mv -fT "${staged}" "${PROGRAMS}/${sha256}"
    rm -f "${archive}"
  fi
  [[ -x "${PROGRAMS}/${sha256}/$2" ]] || log::fail "${url##*/} has no program $2"
  ln -sfn "${sha256}/$2" "${link}"
)
