# shellcheck shell=bash
# Who we are at a registry. Passwords live in variables and pipes alone: never in an argument, a log, the environment, or a file that others
# may read. Enroot gets a credentials file whose password is a command, so not even that file holds one.

# ecr_region HOST: the region of a private ECR registry; nothing for any other host.
credentials::ecr_region() {
  if [[ "$1" =~ ^[0-9]{12}\.dkr[.-]ecr(-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)$ ]]; then
    printf '%s' "${BASH_REMATCH[2]}"
  fi
}

# enroot_value NAME: a setting of Enroot: the environment's, else that of its files, in which the shell's expansions work, as in Enroot.
credentials::enroot_value() {
  local -r name="$1"
  local value="${!name:-}" file
  if [[ -z "${value}" ]]; then
    for file in "${IMPORT_ENROOT_CONF}" "${IMPORT_ENROOT_CONF}".d/*.conf; do
      [[ -r "${file}" ]] || continue
      value="$(awk -v name="${name}" '$1 == name { sub(/^[ \t]*[^ \t]+[ \t]+/, ""); found = $0 } END { print found }' "${file}")"
      [[ -z "${value}" ]] || break
    done
    # Only root writes these files, and Enroot itself expands them in this way.
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

# line HOST: that host's line of the credentials file, unexpanded; nothing where there is none.
credentials::line() {
  local file
  file="$(credentials::file)"
  [[ -r "${file}" ]] || return 0
  awk -v host="${1%:*}" '$1 == "machine" && $2 == host && $3 == "login" && $5 == "password" { print; exit }' "${file}"
}

# of HOST: "user:password", or nothing where none is known for the host.
credentials::of() {
  local -r host="$1"
  local line region user password problem
  local -r right="The node's role needs ecr:GetAuthorizationToken; to log in as somebody else, set AWS_PROFILE."
  line="$(credentials::line "${host}")"
  region="$(credentials::ecr_region "${host}")"
  problem="${IMPORT_WORK}/login"
  if [[ -n "${line}" ]]; then
    read -r _ _ _ user _ password <<<"${line}"
    # The password may be a command, which Enroot runs too; the file is this user's or the system's.
    password="$(eval "printf '%s' \"${password}\"" 2>"${problem}")" || password=""
    [[ -n "${password}" ]] ||
      log::fail 77 "$(credentials::file) has no password for ${user} at ${host}: $(grep -v '^[[:space:]]*$' "${problem}" | tail -n 1). ${region:+${right} }Or mend that line of the file."
  elif [[ -n "${region}" ]]; then
    user=AWS
    password="$(aws ecr get-login-password --region "${region}" 2>"${problem}")" || password=""
    [[ -n "${password}" ]] ||
      log::fail 77 "no login at ${host}: $(grep -v '^[[:space:]]*$' "${problem}" | tail -n 1). ${right}"
  else
    return 0
  fi
  printf '%s:%s' "${user}" "${password}"
}

# for_enroot HOST: the user name for Enroot's URI, and a folder for ENROOT_CONFIG_PATH where Enroot must be given one, as "USER FOLDER".
# The node's own credentials file is used where it knows the host.
credentials::for_enroot() {
  local -r host="$1"
  local line region
  line="$(credentials::line "${host}")"
  region="$(credentials::ecr_region "${host}")"
  if [[ -n "${line}" ]]; then
    read -r _ _ _ user _ <<<"${line}"
    printf '%s %s' "${user}" "$(dirname "$(credentials::file)")"
  elif [[ -n "${region}" ]]; then
    local -r folder="${IMPORT_WORK}/enroot"
    (umask 077 && mkdir -p "${folder}" && printf "machine %s login AWS password \$(aws ecr get-login-password --region %s)\n" "${host}" "${region}" >"${folder}/.credentials")
    printf 'AWS %s' "${folder}"
  fi
}
