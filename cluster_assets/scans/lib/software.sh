# Slurm, Enroot, Pyxis, Docker, limits. Needs scan.sh and ../lib/pyxis.sh.

software::check_controller() {
  scan::run scontrol ping
  local found="${ANSWER%%$'\n'*}"
  [[ "${STATUS}" != 0 || "${ANSWER}" != *" UP"* ]] || found=up
  report::require slurm-controller "${found}" up "sudo systemctl status slurmctld on the head node, and /var/log/slurmctld.log" "${found}" = up
}

software::check_daemon() {
  scan::run systemctl is-active slurmd
  report::require slurmd "${ANSWER%%$'\n'*}" active "sudo systemctl restart slurmd, and /var/log/slurmd.log" "${STATUS}" = 0
}

# check_pyxis: enabled in the configuration that all nodes share, and the plugin on this node.
software::check_pyxis() {
  local -r conf="${TRAINYARD_ROOT}/opt/slurm/etc/plugstack.conf.d/pyxis.conf" wanted="enabled, the plugin on this node"
  local plugin
  if [[ ! -r "${conf}" ]]; then
    report::add pyxis failure "not enabled: no ${conf#"${TRAINYARD_ROOT}"}" "${wanted}" "Run the bootstrap on the head node again: entry.sh BUCKET updated REGION."
    return 0
  fi
  plugin="$(pyxis::plugin "${conf}")"
  if [[ -n "${plugin}" && -r "${TRAINYARD_ROOT}${plugin}" ]]; then
    report::add pyxis ok "${plugin}" "${wanted}"
  else
    report::add pyxis failure "no ${plugin:-plugin}" "${wanted}" "Every job fails on this node: use an official ParallelCluster AMI, or build yours on one."
  fi
}

# check_docker: needed only to build images on the head node.
software::check_docker() {
  scan::run docker version --format '{{.Server.Version}}'
  local verdict=ok
  ((STATUS == 0)) || verdict=skipped
  report::add docker "${verdict}" "${ANSWER%%$'\n'*}" "only to build images here" "Build images in AWS, or install Docker here."
}

software::check_no_gpu() {
  scan::run nvidia-smi -L
  if ((STATUS == 0)) && [[ "${ANSWER}" == *"GPU "* ]]; then
    report::add gpus warning "$(grep -c '^GPU ' <<<"${ANSWER}")" none "The GPUs of a head node are unused: choose another instance type."
  else
    report::add gpus ok none none
  fi
}

# check_locked_memory ACTION: the limit of this shell, which Slurm carries to jobs.
software::check_locked_memory() {
  local found
  found="$(ulimit -l)"
  [[ "${found}" == unlimited ]] || found+=" KiB"
  report::require locked-memory "${found}" unlimited "$1" "${found}" = unlimited
}

software::check_limits() {
  local -r files="$(ulimit -n)" least="$(minimums::get figures.open-files.minimum)"
  local -r action="Log in again; /etc/security/limits.d/90-trainyard.conf and slurmd's unit set it."
  local verdict=ok
  software::check_locked_memory "${action}"
  [[ "${files}" == unlimited ]] || ((files >= least)) || verdict=warning
  report::add open-files "${verdict}" "${files}" "${least} or more" "${action}"
}

software::check_scripts() {
  local scripts current
  scripts="$(jq -r '.folders.scripts // empty' "${TRAINYARD_SETTINGS}" 2>/dev/null || true)"
  if [[ -z "${scripts}" ]]; then
    report::add scripts skipped "not checked" "the environment has no shared file system for them"
  elif current="$(readlink "${TRAINYARD_ROOT}${scripts}/current")" && [[ -d "${TRAINYARD_ROOT}${scripts}/current/" ]]; then
    report::add scripts ok "${current##*/}" "${scripts}/current"
  else
    report::add scripts failure "no ${scripts}/current" "${scripts}/current" "Run the bootstrap on the head node again: entry.sh BUCKET updated REGION."
  fi
}
