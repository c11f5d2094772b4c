#!/usr/bin/env bash
# A timer on the head node that gives slurmdbd the password of the accounting database after a rotation, where ParallelCluster has set up a
# database. ParallelCluster's own script compares the secret with slurmdbd's configuration and restarts slurmdbd if they differ; ParallelCluster
# itself runs it only when it sets up the head node (guide, "Slurm accounting", "Updating the database credentials"), and its unit of slurmdbd
# has no Restart= (aws-parallelcluster-cookbook f75d84c3, slurmdbd.service.erb): the timer also starts a slurmdbd that has ended.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

readonly SCRIPT=/opt/parallelcluster/scripts/slurm/update_slurm_database_password.sh

# What the timer runs.
database_password::update() {
  local status=0
  bash "${SCRIPT}" || status=$?
  systemctl is-active --quiet slurmdbd.service || systemctl start slurmdbd.service
  return "${status}"
}

database_password::main() {
  if [[ ! -e "${TRAINYARD_ROOT}${SCRIPT}" ]]; then
    ! units::stop trainyard-database-password.timer || log::info "there is no accounting database any more"
    return 0
  fi
  base::need 1 systemctl
  files::write "${UNITS}/trainyard-database-password.service" 0644 <<END
[Unit]
Description=Password of the accounting database
ConditionPathExists=${SCRIPT}
[Service]
Type=oneshot
# Where the AWS CLI is installed.
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/bin/bash /opt/trainyard/current/steps/database-password.sh update
END
  units::timer database-password "Password of the accounting database" OnBootSec=1min OnUnitInactiveSec=5min
}

"database_password::${1:-main}"
