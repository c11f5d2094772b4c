#!/bin/bash
# Imitates update_slurm_database_password.sh of aws-parallelcluster-cookbook at f75d84c3: if the secret's text is not slurmdbd's StoragePass, it
# becomes that and slurmdbd is restarted. There the property is in a file of its own, slurm_parallelcluster_slurmdbd.conf.
set -e
readonly CONFIG=/opt/slurm/etc/slurmdbd.conf
readonly SECRET=arn:aws:secretsmanager:us-east-1:000000000000:secret:accounting-AbCdEf

known="$(sed -n 's/^StoragePass=//p' "${CONFIG}")"
wanted="$(aws secretsmanager get-secret-value --secret-id "${SECRET}" --region us-east-1 --query SecretString --output text)"
if [[ "${known}" == "${wanted}" ]]; then
  echo "Password match, skipping update"
  exit 0
fi
sed -i '/^StoragePass=/d' "${CONFIG}"
echo "StoragePass=${wanted}" >>"${CONFIG}"
if systemctl --quiet is-active slurmdbd.service; then systemctl restart slurmdbd; fi
