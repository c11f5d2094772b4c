"""The accounting database of a running cluster: loss, restore, upgrade, new password, removal (docs/accounting.md).

Slurm's own slurmctld and slurmdbd on MariaDB, in the place of Aurora.
"""

from __future__ import annotations

from local.slurm import Laboratory
from tests.teams.conftest import NEWER

SQL = "mariadb --no-defaults --socket=/run/mysqld/mysqld.sock"
SECRET = "/run/lab/secrets/accounting-AbCdEf"


def submit(lab: Laboratory, seconds: float, name: str) -> str:
    """A job of one CPU; four share the node."""
    line = ["sbatch", "--parsable", "--partition=cpu", "-n1", f"--job-name={name}", "--output=/dev/null"]
    return lab.output([*line, f"--wrap=sleep {seconds}"])


def states(lab: Laboratory, jobs: list[str]) -> dict[str, str]:
    """State and name by job, as the database has them; empty while it does not answer."""
    line = ["sacct", "-nPX", "-j", ",".join(jobs), "-o", "jobid,state,jobname,end"]
    found = lab.run(line, user="root", check=False).stdout.splitlines()
    rows = (row.split("|") for row in found if row.count("|") == 3)
    return {job: f"{state} {name}" for job, state, name, end in rows if end != "Unknown"}


def recorded(lab: Laboratory, jobs: dict[str, str]) -> None:
    """Return when each job is in the database, ended, with its name."""
    wanted = {job: f"COMPLETED {name}" for job, name in jobs.items()}
    lab.wait(lambda: states(lab, list(jobs)) == wanted, f"{len(jobs)} jobs in sacct", seconds=120)


def database(lab: Laboratory, command: str) -> str:
    return lab.output(command, node="aws", user="root")


def done(lab: Laboratory, name: str) -> dict[str, str]:
    """One ended job that the database has."""
    jobs = {submit(lab, 0, name): name}
    recorded(lab, jobs)
    return jobs


def test_no_record_is_lost_while_the_database_is_away(shared_lab: Laboratory) -> None:
    """Half a minute with jobs of seconds, in place of ten minutes: slurmctld keeps records by number, not by time."""
    lab = shared_lab
    before = {submit(lab, 4, f"before{number}"): f"before{number}" for number in range(3)}
    for job in before:
        lab.wait_for_job(job, states=("RUNNING",))
    database(lab, "kill -9 $(cat /run/mysqld/mariadbd.pid)")
    during = {submit(lab, 1, f"during{number}"): f"during{number}" for number in range(12)}
    for job in [*before, *during]:
        lab.wait_for_job(job)  # jobs start and end without the database
    after = {submit(lab, 25, f"after{number}"): f"after{number}" for number in range(2)}
    for job in after:
        lab.wait_for_job(job, states=("RUNNING",))
    assert states(lab, list(during)) == {}, "the database answers although it is killed"
    database(lab, "systemctl start mariadb")
    for job in after:
        lab.wait_for_job(job, seconds=60)
    recorded(lab, before | during | after)


def test_a_lost_database_is_restored(shared_lab: Laboratory) -> None:
    lab = shared_lab
    jobs = done(lab, "kept")
    # A copy of its files, as a snapshot of Aurora's volume is.
    database(lab, "systemctl stop mariadb && cp -a /var/lib/mysql /root/snapshot && systemctl start mariadb")
    lab.run("systemctl stop slurmdbd", user="root")
    database(lab, f"{SQL} -e 'DROP DATABASE slurm_acct_db'")
    meanwhile = {submit(lab, 0, "meanwhile"): "meanwhile"}
    lab.wait_for_job(next(iter(meanwhile)))
    database(lab, "systemctl stop mariadb && find /var/lib/mysql -mindepth 1 -delete")
    database(lab, "cp -a /root/snapshot/. /var/lib/mysql/ && systemctl start mariadb")
    lab.run("systemctl start slurmdbd", user="root")
    recorded(lab, jobs | meanwhile)


def test_a_new_password_reaches_slurmdbd(shared_lab: Laboratory) -> None:
    """What the rotation does on AWS: the database has the new password, then the secret; the product's unit repairs."""
    lab = shared_lab
    jobs = done(lab, "old-password")
    database(lab, f"""{SQL} -e "ALTER USER 'slurm'@'%' IDENTIFIED BY 'newpassword'" """)
    # slurmdbd loses its connection, and cannot make another one.
    database(lab, "systemctl restart mariadb")
    meanwhile = {submit(lab, 0, "between"): "between"}
    lab.wait_for_job(next(iter(meanwhile)))
    assert states(lab, list(meanwhile)) == {}
    lab.run(f"install -d -m 0700 {SECRET.rpartition('/')[0]} && echo newpassword >{SECRET}", user="root")
    lab.run("systemctl start trainyard-database-password", user="root")
    recorded(lab, jobs | meanwhile)
    assert "StoragePass=newpassword" in lab.output("cat /opt/slurm/etc/slurmdbd.conf", user="root")
    # Once more: nothing to do, and slurmdbd keeps running.
    pid = lab.output("cat /run/slurmdbd/slurmdbd.pid", user="root")
    script = "/opt/parallelcluster/scripts/slurm/update_slurm_database_password.sh"
    assert "skipping" in lab.output(["bash", script], user="root")
    assert lab.output("cat /run/slurmdbd/slurmdbd.pid", user="root") == pid


def test_a_job_runs_on_when_accounting_is_removed(shared_lab: Laboratory) -> None:
    lab, conf = shared_lab, "/opt/slurm/etc/slurm.conf"
    job = submit(lab, 15, "without")
    lab.wait_for_job(job, states=("RUNNING",))
    try:
        # Without a database slurmctld refuses to count GPUs: the product removes both with one update.
        removed = "/^AccountingStorage(Type|Host|TRES)=/d"
        lab.run(f"cp -p {conf} /root/slurm.conf && sed -i -E '{removed}' {conf}", user="root")
        lab.run("systemctl stop slurmdbd && systemctl restart slurmctld", user="root")
        assert lab.job(job)["JobState"] == "RUNNING"
        lab.wait_for_job(job, seconds=60)
        assert "disabled" in lab.run(["sacct"], check=False).stderr
    finally:
        lab.run(
            f"cp -p /root/slurm.conf {conf} && systemctl start slurmdbd && systemctl restart slurmctld", user="root"
        )
    done(lab, "again")


def test_the_server_is_upgraded_under_its_records(shared_lab: Laboratory) -> None:
    """From MariaDB 10.11 to the newer Debian's 11.8, on the same files, until the end of the laboratory."""
    lab, service = shared_lab, "/usr/local/lib/lab/services/mariadb"
    jobs = done(lab, "before-upgrade")
    assert database(lab, f"{SQL} -N -e 'SELECT VERSION()'").startswith("10.11.")
    database(lab, "systemctl stop mariadb")
    for folder in ("/var/lib/mysql", "/run", "/tmp", "/dev", "/proc"):  # noqa: S108 - the node's own
        database(lab, f"mount --bind {folder} {NEWER}{folder}")
    # Its user mysql has another group.
    database(lab, f"chroot {NEWER} chown -R mysql: /var/lib/mysql")
    text = database(lab, f"cat {service}").replace(
        "(/usr/sbin/mariadbd", f"(/usr/sbin/chroot {NEWER} /usr/sbin/mariadbd"
    )
    lab.write(service, text + "\n", node="aws", user="root")
    database(lab, "systemctl start mariadb")
    database(lab, f"chroot {NEWER} mariadb-upgrade --no-defaults --socket=/run/mysqld/mysqld.sock")
    assert database(lab, f"{SQL} -N -e 'SELECT VERSION()'").startswith("11.8.")
    recorded(lab, jobs | done(lab, "after-upgrade"))
