# shellcheck shell=bash
# Slurm, Enroot, Pyxis, Docker, limits. Needs scan.sh.

software::check_enroot() {
  local status=0
  scan::bounded enroot version || status="$?"
  if ((status)); then
    minimums::compare enroot enroot "${ANSWER%%$'\n'*}"
  else
    minimums::compare enroot enroot "${ANSWER}"
  fi
}

software::check_slurm() {
  local status=0
  scan::bounded sinfo --version || status="$?"
  if ((status)); then
    minimums::compare slurm slurm "${ANSWER%%$'\n'*}"
  else
    minimums::compare slurm slurm "${ANSWER}"
  fi
}

software::check_controller() {
  local status=0
  scan::bounded scontrol ping || status="$?"
  if ((status == 0)) && [[ "${ANSWER}" == *" is UP"* || "${ANSWER}" == *" UP"* ]]; then
    report::add slurm-controller ok up up
  else
    report::add slurm-controller failure "${ANSWER%%$'\n'*}" up "sudo systemctl status slurmctld on the head node, and /var/log/slurmctld.log"
  fi
}

# check_daemon: slurmd, and what Slurm thinks of this node.
software::check_daemon() {
  local status=0
  scan::bounded systemctl is-active slurmd || status="$?"
  if ((status)); then
    report::add slurmd failure "${ANSWER%%$'\n'*}" active "sudo systemctl restart slurmd, and /var/log/slurmd.log"
  else
    report::add slurmd ok active active
  fi
}

# check_pyxis: switched on in the configuration that all nodes share, and the plugin here.
software::check_pyxis() {
  local -r conf="${TRAINYARD_ROOT}/opt/slurm/etc/plugstack.conf.d/pyxis.conf"
  local -r action="Run the bootstrap on the head node again: entry.sh BUCKET updated REGION."
  local plugin
  if [[ ! -r "${conf}" ]]; then
    report::add pyxis failure "switched off: no ${conf#"${TRAINYARD_ROOT}"}" "switched on, the plugin on this node" "${action}"
    return 0
  fi
  plugin="$(awk '$1 == "required" || $1 == "optional" { print $2; exit }' "${conf}")"
  if [[ -n "${plugin}" && -r "${TRAINYARD_ROOT}${plugin}" ]]; then
    report::add pyxis ok "${plugin}" "switched on, the plugin on this node"
  else
    report::add pyxis failure "no ${plugin:-plugin}" "switched on, the plugin on this node" \
      "Every job fails on this node: use an official ParallelCluster AMI, or build yours on one."
  fi
}

# check_docker: only who builds images on the head node needs it.
software::check_docker() {
  local status=0
  scan::bounded docker version --format '{{.Server.Version}}' || status="$?"
  if ((status)); then
    report::add docker skipped "${ANSWER%%$'\n'*}" "only to build images here" "Build images in AWS, or install Docker here."
  else
    report::add docker ok "${ANSWER%%$'\n'*}" "only to build images here"
  fi
}

software::check_no_gpu() {
  local status=0
  scan::bounded nvidia-smi -L || status="$?"
  if ((status == 0)) && [[ "${ANSWER}" == *"GPU "* ]]; then
    report::add gpus warning "$(grep -c '^GPU ' <<<"${ANSWER}")" none "A head node with GPUs costs without use: choose another instance type."
  else
    report::add gpus ok none none
  fi
}

# check_limits: of the shell that runs this, which Slurm carries into jobs.
software::check_limits() {
  local -r locked="$(ulimit -l)" files="$(ulimit -n)"
  local -r least="$(minimums::get figures.open-files.minimum)"
  local -r action="Log in anew; /etc/security/limits.d/90-trainyard.conf and slurmd's unit set it."
  if [[ "${locked}" == unlimited ]]; then
    report::add locked-memory ok unlimited unlimited
  else
    report::add locked-memory failure "${locked} KiB" unlimited "${action}"
  fi
  if [[ "${files}" == unlimited ]] || ((files >= least)); then
    report::add open-files ok "${files}" "${least} or more"
  else
    report::add open-files warning "${files}" "${least} or more" "${action}"
  fi
}

# check_scripts: the version of the helpers that is in force.
software::check_scripts() {
  local scripts current
  scripts="$(jq -r '.folders.scripts // empty' "${TRAINYARD_SETTINGS}" 2>/dev/null || true)"
  if [[ -z "${scripts}" ]]; then
    report::add scripts skipped "not looked for" "the environment has no shared file system for them"
  elif current="$(readlink "${TRAINYARD_ROOT}${scripts}/current")" && [[ -d "${TRAINYARD_ROOT}${scripts}/current/" ]]; then
    report::add scripts ok "${current##*/}" "${scripts}/current"
  else
    report::add scripts failure "no ${scripts}/current" "${scripts}/current" "Run the bootstrap on the head node again: entry.sh BUCKET updated REGION."
  fi
}
