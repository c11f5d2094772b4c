# Reads settings.json (see settings.schema.json) with jq, which every ParallelCluster AMI has. Needs base.sh.

# load: keep the values for this process and those that it starts: each start of jq 1.6 takes 40 ms. A line for each value, with a filter that
# yields it (`.mounts[].path=/fsx`); null is an empty value. Keeps nothing if a value has several lines, or if all have
# 100,000 bytes or more: a variable holds 128 KiB.
settings::load() {
  local LC_ALL=C
  TRAINYARD_VALUES="$(jq -r 'if any(.. | strings; contains("\n")) then empty else . end
    | paths((type != "object" and type != "array") or length == 0) as $path
    | select(all($path[]; type == "string") or (getpath($path) | type != "object" and type != "array"))
    | "\($path | map(if type == "number" then "[]" else ".\(.)" end) | add)=\(getpath($path) | if . == null then "" else . end)"' \
    "${TRAINYARD_SETTINGS}" 2>/dev/null)" && ((${#TRAINYARD_VALUES} < 100000)) || TRAINYARD_VALUES=""
  export TRAINYARD_VALUES
}

# is_loaded FILTER: whether the kept values answer it: it yields some of them, or it is the path of a value that the file does not have.
settings::is_loaded() {
  [[ -n "${TRAINYARD_VALUES:-}" ]] || return 1
  local -r values=$'\n'"${TRAINYARD_VALUES}"
  [[ "${values}" == *$'\n'"$1="* || ("$1" =~ ^(\.[a-z_]+)+$ && "${values}" != *$'\n'"$1"[.[]*) ]]
}

# get FILTER [JQ_ARGUMENT...]: the values that a jq filter yields, one per line; nothing for null.
settings::get() {
  local -r filter="$1"
  shift
  if (($# == 0)) && settings::is_loaded "${filter}"; then
    local line
    while IFS= read -r line; do
      [[ "${line}" != "${filter}="?* ]] || printf '%s\n' "${line#"${filter}="}"
    done <<<"${TRAINYARD_VALUES}"
    return 0
  fi
  jq -r "$@" "(${filter}) | select(. != null)" "${TRAINYARD_SETTINGS}" ||
    log::fail "cannot read '${filter}' from ${TRAINYARD_SETTINGS}: publish the assets again"
}

# node_value KEY: a value of the file that ParallelCluster writes for each node's recipes; nothing where it has none.
settings::node_value() {
  local -r file="${TRAINYARD_ROOT:-}/etc/chef/dna.json"
  [[ ! -r "${file}" ]] || jq -r --arg key "$1" '.cluster[$key] // empty' "${file}"
}

# queue: this node's; nothing on head and login nodes.
settings::queue() {
  settings::node_value scheduler_queue_name
}

# scratch QUEUE: where the queue's nodes mount their local NVMe; nothing without a queue, or if the queue leaves it alone.
settings::scratch() {
  settings::get '.queues[] | select(.name == $queue) | .scratch' --arg queue "$1"
}

# health_check: whether an unhealthy node of this queue takes itself out of service; the environment file can turn it off.
settings::health_check() {
  [[ "$(settings::get '.queues[] | select(.name == $queue) | .health_check' --arg queue "$(settings::queue)")" != false ]]
}
