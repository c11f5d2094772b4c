# This node's instance type, its figures from settings.json, and all checks of nodes. Needs scan.sh.

for part in ../../lib/base ../../lib/settings ../../lib/pyxis gpus fabric disks software; do
  # shellcheck source=/dev/null
  . "${SCANS}/lib/${part}.sh"
done

# Empty where jq or settings.json is missing: the other checks still run.
NODE_ENVIRONMENT="" NODE_USER="" NODE_SCRATCH="" NODE_RESULTS="" NODE_MOUNTS=() NODE_INSTANCES=()

# settings: read from settings.json what the checks need: NODE_ENVIRONMENT, NODE_USER (the cluster's), NODE_SCRATCH, NODE_RESULTS, NODE_MOUNTS,
# and in NODE_INSTANCES the possible instance types of this node with their figures (all types if its queue is unknown). One call of jq, because
# slurmd runs the checks on busy nodes and jq 1.6 needs 40 ms to start.
node::settings() {
  local -r dna="${TRAINYARD_ROOT}/etc/chef/dna.json"
  local recipes=/dev/null key value lines
  [[ ! -r "${dna}" ]] || recipes="${dna}"
  lines="$(jq -nr --slurpfile settings "${TRAINYARD_SETTINGS}" --slurpfile dna "${recipes}" '
    ($dna[0].cluster // {}) as $node | $settings[0] | select(.schema == 1)
    | [.queues[] | select(.name == ($node.scheduler_queue_name // .name))] as $queues
    | [$queues[].compute[]? | select(.name == ($node.scheduler_compute_resource_name // .name)) | .instances[]] as $instances
    | "environment=\(.environment)", "user=\(.cluster.user)", "results=\(.folders.results // "")", "scratch=\([$queues[].scratch | values] | first // "")", "mount=\(.mounts[].path)",
      ($instances | sort_by(.efa_interfaces) | reverse[]
        | "instance=\([.type, .gpus, .gpu, .efa_interfaces, .nvme_gb, .nvswitch] | map(tostring) | join("|"))")
  ' 2>/dev/null)" || return 1
  while IFS="=" read -r key value; do
    # shellcheck disable=SC2034 # read by disks.sh and node-health.sh
    case "${key}" in
      environment) NODE_ENVIRONMENT="${value}" ;;
      user) NODE_USER="${value}" ;;
      scratch) NODE_SCRATCH="${value}" ;;
      results) NODE_RESULTS="${value}" ;;
      mount) NODE_MOUNTS+=("${value}") ;;
      instance) NODE_INSTANCES+=("${value}") ;;
    esac
  done <<<"${lines}"
  [[ -n "${NODE_ENVIRONMENT}" ]]
}

# type: one of the types of this node's compute resource. If it has several, EC2 reports which (IMDSv2). Nothing if unknown.
instance::type() {
  local -r service="${TRAINYARD_IMDS:-http://169.254.169.254}/latest"
  local candidates token
  if [[ -n "${TRAINYARD_INSTANCE_TYPE:-}" ]]; then
    printf '%s' "${TRAINYARD_INSTANCE_TYPE}"
    return 0
  fi
  candidates="$(printf '%s\n' "${NODE_INSTANCES[@]%%|*}" | sort -u)"
  if [[ -n "${candidates}" && "${candidates}" != *$'\n'* ]]; then
    printf '%s' "${candidates}"
    return 0
  fi
  token="$(curl --silent --fail --max-time 3 --retry 3 --retry-connrefused -X PUT \
    -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "${service}/api/token" 2>/dev/null)" || return 0
  curl --silent --fail --max-time 3 --retry 3 -H "X-aws-ec2-metadata-token: ${token}" "${service}/meta-data/instance-type" 2>/dev/null || return 0
}

# load: set INSTANCE_TYPE, and INSTANCE_KNOWN=yes with the type's figures if settings.json has them.
instance::load() {
  local line
  INSTANCE_TYPE="$(instance::type)"
  INSTANCE_KNOWN=no INSTANCE_GPUS=0 INSTANCE_GPU="" INSTANCE_EFA=0 INSTANCE_NVME_GB=0 INSTANCE_NVSWITCH=false
  for line in "${NODE_INSTANCES[@]}"; do
    [[ "${line%%|*}" == "${INSTANCE_TYPE}" ]] || continue
    # shellcheck disable=SC2034 # read by the checks
    IFS='|' read -r _ INSTANCE_GPUS INSTANCE_GPU INSTANCE_EFA INSTANCE_NVME_GB INSTANCE_NVSWITCH <<<"${line}"
    INSTANCE_KNOWN=yes
    return 0 # of two entries of one type, the one with more EFA interfaces is first
  done
}

# identify ROLE: load this node's figures, and report whether they are known.
node::identify() {
  local verdict=ok
  if ! command -v jq >/dev/null; then
    report::add settings failure "no jq" "${TRAINYARD_SETTINGS}" "Install jq: official ParallelCluster AMIs have it."
  elif ! node::settings; then
    report::add settings failure "no readable ${TRAINYARD_SETTINGS}" "written by the bootstrap" \
      "This is not a node of a Trainyard cluster, or its bootstrap failed: see /var/log/trainyard/bootstrap.log."
  else
    report::add settings ok "${NODE_ENVIRONMENT}" "written by the bootstrap"
  fi
  instance::load
  [[ "$1" == compute ]] || return 0
  [[ "${INSTANCE_KNOWN}" == yes ]] || verdict=warning
  report::add instance-type "${verdict}" "${INSTANCE_TYPE:-unknown}" "one that settings.json lists" \
    "Counts of GPUs, EFA interfaces and disks are not checked; give the type with --instance-type."
}
