# shellcheck shell=bash
# Runs once in a new base: the compiled stand-ins, the empty accounting database, the registry's CA.
set -euo pipefail

# slurm.conf is on a share, as in ParallelCluster; Debian's programs read /etc/slurm.
rm -rf /etc/slurm
ln -s /opt/slurm/etc /etc/slurm
mkdir -p /opt/slurm /fsx /scratch /run/lab /etc/lab-ca /usr/local/lib/slurm
for name in slurmctld slurmd slurmstepd; do
  [[ -e "/usr/sbin/${name}" || ! -e "/usr/sbin/${name}-wlm" ]] || ln -s "${name}-wlm" "/usr/sbin/${name}"
done

# Slurm's plugin opens PMIx by its development name.
for library in /usr/lib/*/pmix2/lib/libpmix.so.2; do
  [[ ! -e "${library}" ]] || ln -sf libpmix.so.2 "${library%.2}"
done

# Compiled against the headers of the Slurm that loads it: a plugin for another Slurm aborts every srun.
gcc -std=gnu11 -O2 -Wall -shared -fPIC -o /usr/local/lib/slurm/spank_pyxis.so /tmp/pyxis.c
gcc -std=gnu11 -O2 -Wall -Werror -shared -fPIC -o /usr/local/lib/lab-limits.so /tmp/limits.c
rm /tmp/pyxis.c /tmp/limits.c

mkdir -p /var/lib/mysql
getent passwd mysql >/dev/null || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin mysql
chown mysql: /var/lib/mysql
mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null

# The CA of the registries' certificates, trusted by the nodes.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Trainyard laboratory' \
  -keyout /etc/lab-ca/ca.key -out /etc/lab-ca/ca.crt 2>/dev/null
chmod 0600 /etc/lab-ca/ca.key
cp /etc/lab-ca/ca.crt /usr/local/share/ca-certificates/trainyard-laboratory.crt
update-ca-certificates >/dev/null 2>&1
rm -f /etc/resolv.conf /etc/hostname /var/log/*.log
