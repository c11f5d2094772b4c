#!/usr/bin/env bash
# EFA and NCCL register memory with the network card, which needs unlimited locked memory; a rank opens thousands of files and sockets.
# The unit's limits apply to slurmd and its tasks, limits.d to login shells, whose limits Slurm carries to jobs.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

readonly OPEN_FILES=1048576

limits::main() {
  base::need 1 systemctl
  files::write "${TRAINYARD_ROOT}/etc/security/limits.d/90-trainyard.conf" 0644 <<END
* soft memlock unlimited
* hard memlock unlimited
* soft nofile ${OPEN_FILES}
* hard nofile ${OPEN_FILES}
END
  FILES_WRITTEN=0
  files::write "${TRAINYARD_ROOT}/etc/systemd/system/slurmd.service.d/90-trainyard.conf" 0644 <<END
[Service]
LimitMEMLOCK=infinity
LimitNOFILE=${OPEN_FILES}
END
  if ((FILES_WRITTEN)); then
    systemctl daemon-reload
  fi
}

limits::main
