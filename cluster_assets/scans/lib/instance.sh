# shellcheck shell=bash
# What this node is, and what it must therefore have: settings.json says it for each instance type of each compute resource.
# Needs settings.sh.

# type: this node's instance type, out of those that its compute resource may have. Only where there are several is EC2 asked, with a
# token (IMDSv2) and within seconds. Nothing where it cannot be told.
instance::type() {
  local -r service="${TRAINYARD_IMDS:-http://169.254.169.254}/latest"
  local candidates token
  if [[ -n "${TRAINYARD_INSTANCE_TYPE:-}" ]]; then
    printf '%s' "${TRAINYARD_INSTANCE_TYPE}"
    return 0
  fi
  candidates="$(instance::_candidates | jq -r .type | sort -u)"
  if [[ -n "${candidates}" && "${candidates}" != *$'\n'* ]]; then
    printf '%s' "${candidates}"
    return 0
  fi
  token="$(curl --silent --fail --max-time 3 --retry 3 --retry-connrefused -X PUT \
    -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "${service}/api/token" 2>/dev/null)" || return 0
  curl --silent --fail --max-time 3 --retry 3 -H "X-aws-ec2-metadata-token: ${token}" "${service}/meta-data/instance-type" 2>/dev/null || return 0
}

# What settings.json says of the instance types that this node may be of, one JSON object a line. By queue and compute resource in
# ParallelCluster's file; where that does not tell, of all of them.
instance::_candidates() {
  # shellcheck disable=SC2016 # the variables are jq's
  jq -c --arg queue "$(settings::queue)" --arg resource "$(settings::compute_resource)" '
    .queues[] | select(.name == $queue or $queue == "") | .compute[]?
    | select(.name == $resource or $resource == "") | .instances[]
  ' "${TRAINYARD_SETTINGS}" 2>/dev/null || true
}

# load: sets INSTANCE_TYPE, and INSTANCE_KNOWN=yes with the figures of that type where settings.json has them.
instance::load() {
  INSTANCE_TYPE="$(instance::type)"
  INSTANCE_KNOWN=no INSTANCE_GPUS=0 INSTANCE_GPU="" INSTANCE_EFA=0 INSTANCE_NVME_GB=0 INSTANCE_NVSWITCH=false
  local line
  # shellcheck disable=SC2016
  line="$(instance::_candidates | jq -rs --arg type "${INSTANCE_TYPE}" '
    map(select(.type == $type)) | max_by(.efa_interfaces) | values
    | [.gpus, .gpu, .efa_interfaces, .nvme_gb, .nvswitch] | map(tostring) | join("|")
  ' 2>/dev/null)" || true
  [[ -n "${line}" ]] || return 0
  # shellcheck disable=SC2034 # for those who call this
  IFS='|' read -r INSTANCE_GPUS INSTANCE_GPU INSTANCE_EFA INSTANCE_NVME_GB INSTANCE_NVSWITCH <<<"${line}"
  # shellcheck disable=SC2034
  INSTANCE_KNOWN=yes
}
