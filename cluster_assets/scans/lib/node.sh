# This node's instance type, its figures from settings.json, and all checks of nodes. Needs scan.sh.

for part in ../../lib/base ../../lib/settings ../../lib/pyxis gpus fabric disks software; do
  # shellcheck source=/dev/null
  . "${SCANS}/lib/${part}.sh"
done

# type: one of the types of this node's compute resource. If it has several, EC2 reports which (IMDSv2). Nothing if unknown.
instance::type() {
  local -r service="${TRAINYARD_IMDS:-http://169.254.169.254}/latest"
  local candidates token
  if [[ -n "${TRAINYARD_INSTANCE_TYPE:-}" ]]; then
    printf '%s' "${TRAINYARD_INSTANCE_TYPE}"
    return 0
  fi
  candidates="$(instance::candidates | jq -r .type | sort -u)"
  if [[ -n "${candidates}" && "${candidates}" != *$'\n'* ]]; then
    printf '%s' "${candidates}"
    return 0
  fi
  token="$(curl --silent --fail --max-time 3 --retry 3 --retry-connrefused -X PUT \
    -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "${service}/api/token" 2>/dev/null)" || return 0
  curl --silent --fail --max-time 3 --retry 3 -H "X-aws-ec2-metadata-token: ${token}" "${service}/meta-data/instance-type" 2>/dev/null || return 0
}

# candidates: the possible instance types of this node in settings.json, one JSON object per line; all types if its queue is unknown.
instance::candidates() {
  jq -c --arg queue "$(settings::queue)" --arg resource "$(settings::node_value scheduler_compute_resource_name)" '
    .queues[] | select(.name == $queue or $queue == "") | .compute[]?
    | select(.name == $resource or $resource == "") | .instances[]
  ' "${TRAINYARD_SETTINGS}" 2>/dev/null || true
}

# load: set INSTANCE_TYPE, and INSTANCE_KNOWN=yes with the type's figures if settings.json has them.
instance::load() {
  INSTANCE_TYPE="$(instance::type)"
  INSTANCE_KNOWN=no INSTANCE_GPUS=0 INSTANCE_GPU="" INSTANCE_EFA=0 INSTANCE_NVME_GB=0 INSTANCE_NVSWITCH=false
  local line
  line="$(instance::candidates | jq -rs --arg type "${INSTANCE_TYPE}" '
    map(select(.type == $type)) | max_by(.efa_interfaces) | values
    | [.gpus, .gpu, .efa_interfaces, .nvme_gb, .nvswitch] | map(tostring) | join("|")
  ' 2>/dev/null)" || true
  [[ -n "${line}" ]] || return 0
  # shellcheck disable=SC2034 # read by the checks
  IFS='|' read -r INSTANCE_GPUS INSTANCE_GPU INSTANCE_EFA INSTANCE_NVME_GB INSTANCE_NVSWITCH <<<"${line}"
  INSTANCE_KNOWN=yes
}

# identify ROLE: load this node's figures, and report whether they are known.
node::identify() {
  local verdict=ok
  if ! command -v jq >/dev/null; then
    report::add settings failure "no jq" "${TRAINYARD_SETTINGS}" "Install jq: official ParallelCluster AMIs have it."
  elif ! jq -e '.schema == 1' "${TRAINYARD_SETTINGS}" >/dev/null 2>&1; then
    report::add settings failure "no readable ${TRAINYARD_SETTINGS}" "written by the bootstrap" \
      "This is not a node of a Trainyard cluster, or its bootstrap failed: see /var/log/trainyard/bootstrap.log."
  else
    report::add settings ok "$(jq -r .environment "${TRAINYARD_SETTINGS}")" "written by the bootstrap"
  fi
  instance::load
  [[ "$1" == compute ]] || return 0
  [[ "${INSTANCE_KNOWN}" == yes ]] || verdict=warning
  report::add instance-type "${verdict}" "${INSTANCE_TYPE:-unknown}" "one that settings.json lists" \
    "Counts of GPUs, EFA interfaces and disks are not checked; give the type with --instance-type."
}
