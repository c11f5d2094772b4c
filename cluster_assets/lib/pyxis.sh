# shellcheck shell=bash
# Pyxis as ParallelCluster ships it: the plugin on every node, an example of its configuration beside it, both switched off.

readonly PYXIS_EXAMPLES="${TRAINYARD_ROOT}/opt/parallelcluster/examples"

# check_plugin: fails where Pyxis is not on this node. The configuration is shared by all nodes and names the plugin as required, so
# a node without it would fail every job it gets, containers or not.
pyxis::check_plugin() {
  local plugin
  [[ -r "${PYXIS_EXAMPLES}/pyxis/pyxis.conf" && -r "${PYXIS_EXAMPLES}/spank/plugstack.conf" ]] ||
    log::fail "Pyxis is not on this node (no ${PYXIS_EXAMPLES}/pyxis/pyxis.conf or spank/plugstack.conf): use an official ParallelCluster AMI of 3.11.1 or later, or build yours on one"
  plugin="$(awk '$1 == "required" || $1 == "optional" { print $2; exit }' "${PYXIS_EXAMPLES}/pyxis/pyxis.conf")"
  [[ -n "${plugin}" && -r "${TRAINYARD_ROOT}${plugin}" ]] ||
    log::fail "the Pyxis plugin '${plugin}' is not on this node: use an official ParallelCluster AMI, or build yours on one"
}

# runtime_path: where the plugin keeps its sockets and images while a job runs.
pyxis::runtime_path() {
  local path
  path="$(sed -n 's/.*runtime_path=\([^[:space:]]*\).*/\1/p' "${PYXIS_EXAMPLES}/pyxis/pyxis.conf")"
  printf '%s' "${path:-/run/pyxis}"
}
