#!/usr/bin/env bash
# Enroot's login to the environment's registry: an entry of its credentials file whose password is a command, which Enroot runs at each
# import. No password is stored and none expires; the node's role grants pulls of the environment's repositories. A login shell adds the entry to
# the user's own file, mode 0600: root writes to no home, and a user's own entries stay.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

credentials::entries() {
  jq -r '
    .region as $region | [.repositories[].uri | split("/")[0]] | unique[]
    | "machine \(.) login AWS password $(aws ecr get-login-password --region \($region))"
  ' "${TRAINYARD_SETTINGS}" || log::fail "cannot read ${TRAINYARD_SETTINGS}: publish the assets again"
}

credentials::main() {
  local entries
  entries="$(credentials::entries)"
  files::write "${TRAINYARD_ROOT}/opt/trainyard/enroot-credentials" 0644 <<<"${entries}"
  files::write "${TRAINYARD_ROOT}/etc/profile.d/trainyard-enroot.sh" 0644 <<'END'
# Written by Trainyard; do not edit.
# Enroot's login to the environment's registry, in the user's own credentials file. An existing entry stays.
if [ -r /opt/trainyard/enroot-credentials ] && [ "$(id -u)" != 0 ] && [ -w "${HOME:-/nonexistent}" ]; then
  (
    umask 077
    folder="${HOME}/.config/enroot"
    mkdir -p "${folder}" 2>/dev/null || exit 0
    while read -r word registry rest; do
      if ! grep -qsF "machine ${registry} " "${folder}/.credentials"; then
        # One write per line: two concurrent logins cannot mix their lines.
        printf '%s %s %s\n' "${word}" "${registry}" "${rest}" >>"${folder}/.credentials" || true
      fi
    done </opt/trainyard/enroot-credentials
    chmod 600 "${folder}/.credentials" 2>/dev/null || true
  )
fi
END
}

credentials::main
