# shellcheck shell=bash
# Runs in a new base, once: users, the accounting's empty database, the registry's authority, the compiled stand-ins.
set -euo pipefail

# slurm.conf lies where ParallelCluster has it, on a share; Debian's programs look into /etc/slurm.
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

# Compiled here, against the headers of the very Slurm that will load it: a plugin of another Slurm aborts every srun.
gcc -std=gnu11 -O2 -Wall -shared -fPIC -o /usr/local/lib/slurm/spank_pyxis.so /tmp/pyxis.c
gcc -std=gnu11 -O2 -Wall -Werror -shared -fPIC -o /usr/local/lib/lab-limits.so /tmp/limits.c
rm /tmp/pyxis.c /tmp/limits.c

mkdir -p /var/lib/mysql
getent passwd mysql >/dev/null || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin mysql
chown mysql: /var/lib/mysql
mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null

# The authority that signs each laboratory's registry; every program of the nodes trusts it.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Trainyard laboratory' \
  -keyout /etc/lab-ca/ca.key -out /etc/lab-ca/ca.crt 2>/dev/null
chmod 0600 /etc/lab-ca/ca.key
cp /etc/lab-ca/ca.crt /usr/local/share/ca-certificates/trainyard-laboratory.crt
update-ca-certificates >/dev/null 2>&1
rm -f /etc/resolv.conf /etc/hostname /var/log/*.log
