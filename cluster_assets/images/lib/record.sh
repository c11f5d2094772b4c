# shellcheck shell=bash
# NAME.json beside NAME.sqsh: where the image came from. The record is written after its image, and holds the image's size and time of
# change, so a record that does not belong to the image beside it is found out.

# matches NAME DIGEST: whether NAME.sqsh is whole and holds that digest.
record::matches() {
  local -r image="${IMPORT_FOLDER}/$1.sqsh" record="${IMPORT_FOLDER}/$1.json"
  [[ -f "${image}" && -f "${record}" ]] || return 1
  # shellcheck disable=SC2016 # jq's variables
  jq -e --arg digest "$2" --arg seal "$(record::seal "${image}")" '.digest == $digest and "\(.bytes) \(.modified)" == $seal' "${record}" >/dev/null 2>&1
}

# seal FILE: size and time of change.
record::seal() {
  stat -c '%s %.9Y' "$1"
}

# write NAME SECONDS: the record of the image that has just been put in place.
record::write() {
  local -r name="$1" seconds="$2" image="${IMPORT_FOLDER}/$1.sqsh"
  local temporary bytes modified
  read -r bytes modified < <(record::seal "${image}")
  temporary="$(mktemp "${IMPORT_FOLDER}/.${name}.import.XXXXXXXX")"
  # shellcheck disable=SC2016 # jq's variables
  jq -n --arg name "${name}" --arg image "$(reference::written)" --arg digest "${REGISTRY_DIGEST}" --arg manifest "${REGISTRY_MANIFEST}" \
    --arg architecture "$(registry::architecture)" --arg imported "$(date -u +%FT%TZ)" --arg user "$(id -un)" --arg host "$(hostname)" \
    --arg job "${SLURM_JOB_ID:-}" --arg compression "${IMPORT_COMPRESSION}" --argjson layers "${REGISTRY_BYTES}" --argjson bytes "${bytes}" \
    --arg modified "${modified}" --argjson seconds "${seconds}" --arg enroot "$(enroot version 2>/dev/null || true)" \
    '{schema: 1, $name, $image, $digest, $manifest, $architecture, $imported, $user, $host, job: (if $job == "" then null else $job end),
      $compression, layer_bytes: $layers, $bytes, $modified, $seconds, $enroot}' >"${temporary}"
  chmod 0644 "${temporary}"
  sync "${temporary}"
  mv -fT "${temporary}" "${IMPORT_FOLDER}/${name}.json"
}
