"""The accounting database of a running cluster: loss, restore, upgrade, new password, removal (docs/accounting.md).

Slurm's own slurmctld and slurmdbd on MariaDB, in the place of Aurora.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from local.slurm import Laboratory
from tests.teams.conftest import NEWER

SQL = "mariadb --no-defaults --socket=/run/mysqld/mysqld.sock"
SECRET = "/run/lab/secrets/accounting-AbCdEf"


def submit(lab: Laboratory, seconds: float, name: str) -> str:
    """A job that shares its node."""
    line = ["sbatch", "--parsable", "-n1", f"--job-name={name}", "--output=/dev/null"]
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
    dump = "mariadb-dump --no-defaults --socket=/run/mysqld/mysqld.sock --single-transaction slurm_acct_db"
    database(lab, f"{dump} >/root/slurm_acct_db.sql")
    lab.run("systemctl stop slurmdbd", user="root")
    database(lab, f"{SQL} -e 'DROP DATABASE slurm_acct_db'")
    meanwhile = {submit(lab, 0, "meanwhile"): "meanwhile"}
    lab.wait_for_job(next(iter(meanwhile)))
    database(lab, f"{SQL} -e 'CREATE DATABASE slurm_acct_db' && {SQL} slurm_acct_db </root/slurm_acct_db.sql")
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


@contextmanager
def newer_server(lab: Laboratory) -> Iterator[None]:
    """The newer Debian's MariaDB on the same data; stays until the end of the laboratory."""
    loader = f"{NEWER}/lib64/ld-linux-x86-64.so.2 --library-path {NEWER}/usr/lib/x86_64-linux-gnu"
    service = "/usr/local/lib/lab/services/mariadb"
    old = database(lab, f"cat {service}")
    new = old.replace("command=(/usr/sbin/mariadbd", f"command=({loader} {NEWER}/usr/sbin/mariadbd")
    new = new.replace("--user=mysql", f"--user=mysql --basedir={NEWER}/usr --lc-messages-dir={NEWER}/usr/share/mysql")
    lab.write(service, new + "\n", node="aws", user="root")
    yield


def test_the_server_is_upgraded_under_its_records(shared_lab: Laboratory) -> None:
    lab = shared_lab
    jobs = done(lab, "before-upgrade")
    assert database(lab, f"{SQL} -N -e 'SELECT VERSION()'").startswith("10.11.")
    database(lab, "systemctl stop mariadb")
    with newer_server(lab):
        database(lab, "systemctl start mariadb")
        database(lab, "mariadb-upgrade --no-defaults --socket=/run/mysqld/mysqld.sock --force || true")
    assert database(lab, f"{SQL} -N -e 'SELECT VERSION()'").startswith("11.8.")
    recorded(lab, jobs | done(lab, "after-upgrade"))


def test_a_job_runs_on_when_accounting_is_removed(shared_lab: Laboratory) -> None:
    lab, conf = shared_lab, "/opt/slurm/etc/slurm.conf"
    job = submit(lab, 15, "without")
    lab.wait_for_job(job, states=("RUNNING",))
    try:
        lab.run(f"cp -p {conf} /root/slurm.conf && sed -i '/^AccountingStorage/d' {conf}", user="root")
        lab.run("systemctl stop slurmdbd && systemctl restart slurmctld", user="root")
        assert lab.job(job)["JobState"] == "RUNNING"
        lab.wait_for_job(job, seconds=60)
        assert "disabled" in lab.run(["sacct"], check=False).stderr
    finally:
        lab.run(
            f"cp -p /root/slurm.conf {conf} && systemctl start slurmdbd && systemctl restart slurmctld", user="root"
        )
    lab.wait(lambda: bool(done(lab, "again")), "accounting again")
