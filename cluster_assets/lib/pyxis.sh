# Pyxis as ParallelCluster ships it: the plugin and an example configuration on every node, not enabled.

readonly PYXIS_EXAMPLES="${TRAINYARD_ROOT}/opt/parallelcluster/examples"

pyxis::plugin() {
  awk '$1 == "required" || $1 == "optional" { print $2; exit }' "$1"
}

# check_plugin: fail unless Pyxis is installed. All nodes share the configuration, which names the plugin as required: a node without it
# would fail every job, with or without a container.
pyxis::check_plugin() {
  local plugin
  [[ -r "${PYXIS_EXAMPLES}/pyxis/pyxis.conf" && -r "${PYXIS_EXAMPLES}/spank/plugstack.conf" ]] ||
    log::fail "Pyxis is not on this node (no ${PYXIS_EXAMPLES}/pyxis/pyxis.conf or spank/plugstack.conf): use an official ParallelCluster AMI of 3.11.1 or later, or build yours on one"
  plugin="$(pyxis::plugin "${PYXIS_EXAMPLES}/pyxis/pyxis.conf")"
  [[ -n "${plugin}" && -r "${TRAINYARD_ROOT}${plugin}" ]] ||
    log::fail "the Pyxis plugin '${plugin}' is not on this node: use an official ParallelCluster AMI, or build yours on one"
}

# runtime_path: the plugin's folder for sockets and images of running jobs.
pyxis::runtime_path() {
  local path
  path="$(sed -n 's/.*runtime_path=\([^[:space:]]*\).*/\1/p' "${PYXIS_EXAMPLES}/pyxis/pyxis.conf")"
  printf '%s' "${path:-/run/pyxis}"
}
