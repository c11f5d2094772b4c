#!/usr/bin/env bash
# apply.sh plan|apply: users, groups and shares of cluster/people.json on this node, as root. Runs at boot (steps/people.sh), from
# trainyard-people.timer, from Slurm's prolog for a user whom the node does not know, and on the head node from the people document of
# Systems Manager. Prints one line of JSON.
#
# The head node fetches people.json and copies it, with the ids that it has given (ids.json), to a folder that all nodes mount and that only root
# can write; the other nodes read it there, and leave a report there. `plan` changes nothing.
#
# Exit codes: 0 answered, also with problems, which are in the answer and on stderr; 1 nothing was done, the reason is on stderr.
export LOG_NAME=people
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

# Overridable.
TRAINYARD_PEOPLE="${TRAINYARD_PEOPLE:-${TRAINYARD_ROOT}/opt/slurm/etc/trainyard}"
readonly HERE="${TRAINYARD_LIB}/../people"
readonly PROLOG="${TRAINYARD_ROOT}/opt/slurm/etc/scripts/prolog.d/15_trainyard_people"
readonly SSHD="${TRAINYARD_ROOT}/etc/ssh/sshd_config" DROP_IN="${TRAINYARD_ROOT}/etc/ssh/sshd_config.d/10-trainyard.conf"
readonly KEYS_LINE="AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/trainyard_keys/%u"
# Seconds after which a report is of a node that is gone.
readonly REPORT_SECONDS=900
# Systems Manager keeps 24,000 characters of an answer.
readonly SHORT='def short($most): [.[:$most][] | (.. | strings) |= .[:300]] + if length > $most then ["and \(length - $most) more"] else [] end; '

people::role() {
  case "$(settings::node_value node_type)" in
    HeadNode) echo head ;;
    LoginNode) echo login ;;
    *) echo compute ;;
  esac
}

# fetch: people.json from the bucket to ${FETCHED}; status 3 if the environment has published none.
people::fetch() {
  local bucket region answer
  bucket="$(settings::get .buckets.assets)"
  region="$(settings::get .region)"
  if ! answer="$(aws s3 cp --region "${region}" --only-show-errors "s3://${bucket}/cluster/people.json" "${FETCHED}" 2>&1)"; then
    case "${answer}" in
      *NoSuchKey* | *"(404)"*) return 3 ;;
    esac
    log::warn "cannot fetch s3://${bucket}/cluster/people.json: ${answer}"
    return 1
  fi
  chmod 0600 "${FETCHED}"
}

# setup ROLE: the timer, sshd's folder of keys, and on the head node the prolog.
people::setup() {
  local -r role="$1"
  local minutes=2
  [[ "${role}" != head ]] || minutes=5
  FILES_WRITTEN=0
  files::write "${UNITS}/trainyard-people.service" 0644 <<'END'
[Unit]
Description=Users, groups and shares of cluster/people.json
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trainyard/current/people/apply.sh apply
END
  units::timer people "Users, groups and shares of cluster/people.json" "OnCalendar=*:0/${minutes}" RandomizedDelaySec=30
  people::sshd
  if [[ "${role}" == head && -d "${PROLOG%/*}" ]]; then
    files::write "${PROLOG}" 0755 <<'END'
#!/bin/bash
# Written by Trainyard. A job of a user whom this node does not know yet, and the user's folders of Enroot, which only root may make: containers
# are unpacked there. Never fails, because a failed prolog drains the node.
getent passwd "${SLURM_JOB_UID:-0}" >/dev/null || timeout 30 bash /opt/trainyard/current/people/apply.sh apply >/dev/null 2>&1
umask 077
exec 9>/run/trainyard-enroot.lock && flock --wait 20 9 # two jobs of one user may start at once
sed -n 's|^ENROOT_[A-Z]*_PATH \(/.*/user-\)$(id -u)$|\1|p' /etc/enroot/enroot.conf 2>/dev/null | while read -r start; do
  folder="${start}${SLURM_JOB_UID:?}"
  [[ -O "${folder%/*}" && ! -L "${folder%/*}" ]] && chmod 0755 "${folder%/*}" || continue
  [[ "$(stat -c %u "${folder}" 2>/dev/null)" == "${SLURM_JOB_UID}" && ! -L "${folder}" ]] && continue
  if [[ -e "${folder}" || -L "${folder}" ]]; then
    foreign="$(mktemp -d "${folder}.foreign-XXXXXX")" && mv "${folder}" "${foreign}/" || continue
  fi
  mkdir -m 0700 "${folder}" && chown -h "${SLURM_JOB_UID}" "${folder}"
done >/dev/null 2>&1
exit 0
END
  fi
}

# sshd: where keys are. The first value of a keyword counts (sshd_config(5)), so the line is in a drop-in where sshd_config includes them, else on its top:
# ParallelCluster's sshd_config, and OpenSSH before 8.2, have no drop-ins.
people::sshd() {
  [[ -f "${SSHD}" ]] || return 0
  local -r before="$(<"${SSHD}")"
  FILES_WRITTEN=0
  if grep -qiE '^[[:space:]]*Include[[:space:]]+/etc/ssh/sshd_config\.d/' "${SSHD}"; then
    files::write "${DROP_IN}" 0644 <<<"${KEYS_LINE}"
  elif [[ "$(head -n 1 "${SSHD}")" != "${KEYS_LINE}" ]]; then
    files::write "${SSHD}" "$(stat -c %a "${SSHD}")" <<<"${KEYS_LINE}
${before}"
  fi
  ((FILES_WRITTEN)) || return 0
  # Debian's sshd checks nothing without this folder, which is missing before the first connection to a socket-activated sshd.
  files::folder "${TRAINYARD_ROOT}/run/sshd" 0755
  if [[ -z "${TRAINYARD_ROOT}" ]] && ! PATH="${PATH}:/usr/sbin" sshd -t; then
    rm -f "${DROP_IN}"
    files::write "${SSHD}" "$(stat -c %a "${SSHD}")" <<<"${before}"
    log::warn "sshd refuses ${KEYS_LINE}: users cannot log in to this node with the keys of the people file"
    return 0
  fi
  systemctl try-restart sshd.service 2>/dev/null 8>&- || systemctl try-restart ssh.service 8>&- || log::warn "sshd was not restarted"
}

# part FILE PROGRAM [OPTION...]: the answer of a program to `plan` or `apply`, as {changes, problems}.
people::part() {
  local -r file="$1" program="$2"
  shift 2
  local answer errors status=0 python
  python="$(base::python)"
  errors="$(mktemp)"
  answer="$(PATH="${PATH}:/opt/slurm/bin" "${python}" "${HERE}/${program}" "${file}" "--${REQUEST}" "$@" 2>"${errors}")" || status=$?
  jq -Rcs --arg errors "$(tail -c 300 "${errors}")" --arg program "${program}" --argjson status "${status}" "${SHORT}"'
    (try fromjson catch null) as $found
    | if $found | type == "object" then $found | {changes: .changes | short(50), problems: .problems | short(20)}
      else {changes: [], problems: [if $errors == "" then "\($program) ended with status \($status)" else $errors end]} end' <<<"${answer}"
  rm -f "${errors}"
}

# reports SHA256: the nodes that have problems, or older people.
people::reports() {
  local -r sha256="$1" oldest="$(($(date +%s) - REPORT_SECONDS))"
  local file
  for file in "${TRAINYARD_PEOPLE}"/nodes/*.json; do
    [[ ! -f "${file}" ]] || cat "${file}"
  done | jq -cs --arg sha256 "${sha256}" --argjson oldest "${oldest}" "${SHORT}"'
    [.[] | select(.time > $oldest) | {node, problems: (.problems + (if .sha256 == $sha256 then [] else ["has not applied these people yet"] end))}
     | select(.problems != []) | .problems |= short(3)] | short(20)'
}

people::report() {
  local -r sha256="$1" users="$2"
  files::folder "${TRAINYARD_PEOPLE}/nodes" 0755
  jq -c --arg node "${HOSTNAME%%.*}" --arg sha256 "${sha256}" --argjson time "$(date +%s)" '{node: $node, sha256: $sha256, time: $time, problems}' \
    <<<"${users}" >"${TRAINYARD_PEOPLE}/nodes/.${HOSTNAME%%.*}.new"
  mv -f "${TRAINYARD_PEOPLE}/nodes/.${HOSTNAME%%.*}.new" "${TRAINYARD_PEOPLE}/nodes/${HOSTNAME%%.*}.json"
}

people::main() {
  [[ $# -eq 1 && "$1" =~ ^(plan|apply)$ ]] || log::exit 1 "apply.sh takes plan or apply, got: $*"
  readonly REQUEST="$1"
  base::need 1 flock jq sha256sum
  local role file users shares='null' nodes='[]' sha256 status=0
  role="$(people::role)"
  readonly FOLDER="${TRAINYARD_ROOT}/var/lib/trainyard"
  files::folder "${FOLDER}" 0755
  # Whoever can read a file can lock it.
  umask 077
  exec 8>>"${FOLDER}/.people.lock"
  chmod 0600 "${FOLDER}/.people.lock"
  umask 022
  flock --wait 120 8 || log::fail "another run held ${FOLDER}/.people.lock for 120 s"
  file="${TRAINYARD_PEOPLE}/people.json"
  if [[ "${role}" == head ]]; then
    FETCHED="$(mktemp "${FOLDER}/.people.XXXXXX")"
    trap 'rm -f -- "${FETCHED}"' EXIT
    people::fetch || status=$?
    ((status != 1)) || log::fail "users were not changed: people.json cannot be fetched"
    file="${FETCHED}"
  fi
  if ((status == 3)) || [[ ! -e "${file}" ]]; then
    jq -cn --arg node "${HOSTNAME%%.*}" '{node: $node, published: false, users: null, shares: null, nodes: []}'
    return 0
  fi
  sha256="$(sha256sum "${file}")"
  sha256="${sha256%% *}"
  [[ "${REQUEST}" == plan ]] || people::setup "${role}"
  users="$(people::part "${file}" apply_users.py --role "${role}")"
  if [[ "${role}" == head ]]; then
    if [[ -f "${HERE}/apply_shares.py" ]] && jq -e '.teams + .qos + .reservations != []' "${file}" >/dev/null; then
      shares="$(people::part "${file}" apply_shares.py)"
    fi
    # A file that apply_users.py refuses as a whole is not handed on: then there is no change and one problem without a name.
    if [[ "${REQUEST}" == apply ]] && "$(base::python)" "${HERE}/people_node.py" "${file}"; then
      files::folder "${TRAINYARD_PEOPLE}" 0755
      [[ ! -f "${FOLDER}/people-state.json" ]] || files::write "${TRAINYARD_PEOPLE}/ids.json" 0644 <"${FOLDER}/people-state.json"
      files::write "${TRAINYARD_PEOPLE}/people.json" 0644 <"${file}"
    fi
    nodes="$(people::reports "${sha256}")"
  elif [[ "${REQUEST}" == apply ]]; then
    people::report "${sha256}" "${users}"
  fi
  jq -cn --arg node "${HOSTNAME%%.*}" --arg sha256 "${sha256}" --argjson users "${users}" --argjson shares "${shares}" --argjson nodes "${nodes}" \
    '{node: $node, published: true, sha256: $sha256, users: $users, shares: $shares, nodes: $nodes}'
  jq -rn --argjson users "${users}" --argjson shares "${shares}" '[$users, $shares | values | .problems[]][]' | while read -r problem; do
    log::warn "${problem}"
  done
}

people::main "$@"
