# shellcheck shell=bash
# Reading settings.json (settings.schema.json says what it holds). jq is on every ParallelCluster AMI.

# get FILTER [jq ARGUMENT...]: the values that a jq filter yields, one a line; nothing for null.
settings::get() {
  local -r filter="$1"
  shift
  jq -r "$@" "(${filter}) | select(. != null)" "${TRAINYARD_SETTINGS}" ||
    log::fail "cannot read '${filter}' from ${TRAINYARD_SETTINGS}: publish the assets again"
}

# queue: the Slurm queue of this node; nothing on a node of no queue. From the file that ParallelCluster gives to each node's recipes.
settings::queue() {
  local -r dna="${TRAINYARD_ROOT}/etc/chef/dna.json"
  [[ -r "${dna}" ]] || return 0
  jq -r '.cluster.scheduler_queue_name // empty' "${dna}"
}

# compute_resource: the compute resource of the queue that this node belongs to; nothing on a node of no queue.
settings::compute_resource() {
  local -r dna="${TRAINYARD_ROOT}/etc/chef/dna.json"
  [[ -r "${dna}" ]] || return 0
  jq -r '.cluster.scheduler_compute_resource_name // empty' "${dna}"
}

# health_check: whether an unhealthy node of this queue takes itself out; the environment file can say no.
settings::health_check() {
  local queue
  queue="$(settings::queue)"
  # shellcheck disable=SC2016 # $queue is jq's
  [[ "$(settings::get '.queues[] | select(.name == $queue) | .health_check' --arg queue "${queue}")" != false ]]
}
