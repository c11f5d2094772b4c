"""People on real nodes: head, login and two compute nodes of the laboratory, with Debian's shadow, sshd and sudo.

And a directory: slapd on the node `aws`, SSSD on the others, with the sssd.conf of ParallelCluster's recipe.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.slurm import Laboratory, Timeouts, bootstrap, directory, make
from ops.problem import Problem
from settings import load
from tests.cluster_config.references import references
from tests.slurm.conftest import lab_machine, running
from trainyard.cluster_config.rendering import render
from trainyard.cluster_people import PEOPLE, cluster_people

__all__ = ["lab_machine"]
ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("people-lab")]
APPLY = ["bash", "/opt/trainyard/current/people/apply.sh"]
FOLDERS = {name: f"/fsx/see/{name}" for name in ("checkpoints", "outputs", "logs")}
FOLDERS |= {"data": "/fsx/data", "tensorboard": "/fsx/see/logs/tensorboard"}
MODEL = {"name": "see", "queue": "gpu", "nodes": 2, "team": "vision", "folders": FOLDERS}


class People:
    """The laboratory, and the people file of its environment."""

    def __init__(self, laboratory: Laboratory, file: Path) -> None:
        self.lab, self.file = laboratory, file

    def write(self, content: dict[str, Any]) -> None:
        (self.file.parent / "people.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def publish(self) -> None:
        bucket = self.lab.path(f"{bootstrap.BUCKETS}/{self.lab.plan.buckets['assets']}")
        (bucket / PEOPLE).write_text(json.dumps(cluster_people(load(self.file))))

    def apply(self, node: str = "head", request: str = "apply") -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.lab.output([*APPLY, request], node=node, user="root"))
        return answer

    def everywhere(self) -> dict[str, Any]:
        """Apply on the head node and then, as their timers do, on the others."""
        self.publish()
        answer = self.apply()
        for node in self.others:
            self.apply(node)
        return answer

    @property
    def others(self) -> list[str]:
        return [node.name for node in (*self.lab.plan.logins, *self.lab.plan.compute)]

    @property
    def all(self) -> list[str]:
        return ["head", *self.others]

    def root(self, command: str, node: str = "head", *, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.lab.run(command, node=node, user="root", check=check)


def key(folder: Path, name: str) -> str:
    """A new key pair's public half; the private one is in the folder."""
    line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(line, check=True)
    return (folder / f"{name}.pub").read_text().strip()


def environment_file(folder: Path) -> Path:
    """environments/local.yaml with people, a team, a model and a login node."""
    data = yaml.safe_load((ROOT / "environments" / "local.yaml").read_text())
    teams = {"teams": [{"name": "vision", "qos": ["normal"]}], "qos": [{"name": "normal"}, {"name": "urgent"}]}
    data |= {"people": {"file": "people.yaml"}, "models": [MODEL], **teams}
    data["cluster"] |= {"login_nodes": {"instance_type": "m7i.large"}, "slurm": {"accounting": True}}
    file = folder / "people-lab.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def content(folder: Path) -> dict[str, Any]:
    ada = {"name": "marie", "uid": 10000, "teams": ["vision"], "administrator": True, "keys": [key(folder, "marie")]}
    return {
        "users": [ada, {"name": "pierre", "uid": 10001, "teams": ["vision"], "keys": [key(folder, "pierre")]}],
        "groups": [{"name": "vision", "gid": 10002}, {"name": "readers", "gid": 10003, "members": ["pierre"]}],
        "removed": [],
    }


@pytest.fixture(scope="module")
def people(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:  # noqa: ARG001 -- a fixture that asks for another
    """A laboratory whose bootstrap has applied two users."""
    folder = tmp_path_factory.mktemp("people")
    found = People(Laboratory(folder / "lab"), environment_file(folder))
    found.write(content(folder))
    plan = make(load(found.file), logins=1, timeouts=Timeouts(slurmd_s=30, message_s=20, kill_wait_s=2))
    with running(folder / "lab", plan, bootstrap.all_nodes) as found.lab:
        for node in ("head", "login"):
            found.root("systemctl start sshd", node)
        yield found


def ssh(people: People, user: str, command: str, *, to: str = "head") -> subprocess.CompletedProcess[str]:
    """Log in by SSH with the user's own key, from the login node's root."""
    private = (people.file.parent / user).read_text()
    people.lab.write(f"/root/{user}", private, node="login", user="root", mode=0o600)
    target = people.lab.node(to).name
    options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return people.root(f"ssh {options} -i /root/{user} {user}@{target} {command!r}", "login", check=False)


def test_the_bootstrap_makes_users_with_the_same_ids_on_all_nodes(people: People) -> None:
    for node in people.all:
        assert people.root("id marie; id pierre", node).stdout.splitlines() == [
            "uid=10000(marie) gid=10000(marie) groups=10000(marie),10002(vision)",
            "uid=10001(pierre) gid=10001(pierre) groups=10001(pierre),10002(vision),10003(readers)",
        ]
        assert people.root("stat -c '%U %a' /home/marie", node).stdout.strip() == "marie 700"
    assert people.root("passwd --status marie").stdout.split()[1] == "L"  # no password


def test_a_second_run_changes_nothing(people: People) -> None:
    people.everywhere()
    for node in people.all:
        before = people.root("md5sum /etc/passwd /etc/group /etc/shadow; stat -c %Y /etc/passwd", node).stdout
        answer = people.apply(node)
        assert answer["users"] == {"changes": [], "problems": []}
        assert people.root("md5sum /etc/passwd /etc/group /etc/shadow; stat -c %Y /etc/passwd", node).stdout == before
    answer = people.apply("head", "plan")
    assert (answer["nodes"], answer["shares"]) == ([], {"changes": [], "problems": []})


def test_a_reservation_that_left_the_file_stays_on_slurm_22_05(people: People) -> None:
    """Its reservations have no comment, by which ours are known later."""
    later = {"name": "demo", "queue": "gpu", "nodes": 1, "teams": ["vision"], "start": "2035-01-01T00:00", "hours": 1}
    without = people.file.read_text()
    try:
        people.file.write_text(without + yaml.safe_dump({"reservations": [later]}))
        people.publish()
        assert [change for change in people.apply()["shares"]["changes"] if "reservation demo" in change]
        assert people.apply()["shares"] == {"changes": [], "problems": []}
    finally:
        people.file.write_text(without)
    people.publish()
    assert people.apply()["shares"] == {"changes": [], "problems": []}
    people.root("scontrol delete ReservationName=demo")
    assert "Invalid qos" in people.lab.run("sbatch --qos=urgent --wrap=true", user="pierre", check=False).stderr


def test_people_log_in_with_their_own_keys_and_no_others(people: People) -> None:
    done = ssh(people, "marie", "id -un; umask")
    assert done.stdout.split()[0] == "marie", done.stderr
    assert ssh(people, "pierre", "id -un", to="login").stdout.strip() == "pierre"
    (people.file.parent / "stranger").unlink(missing_ok=True)
    key(people.file.parent, "stranger")
    (people.file.parent / "pierre.own").write_text((people.file.parent / "pierre").read_text())
    (people.file.parent / "pierre").write_text((people.file.parent / "stranger").read_text())
    try:
        assert "Permission denied" in ssh(people, "pierre", "id").stderr
    finally:
        (people.file.parent / "pierre").write_text((people.file.parent / "pierre.own").read_text())


def test_ssh_between_nodes_needs_no_key_of_the_users(people: People) -> None:
    options = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    assert people.lab.output(f"ssh {options} head id -un", node="login", user="pierre").endswith("pierre")


def test_only_administrators_may_use_sudo_and_not_on_compute_nodes(people: People) -> None:
    compute = people.lab.plan.compute[0].name
    assert people.lab.output("sudo -n id -un", user="marie") == "root"
    assert people.lab.output("sudo -n id -un", node="login", user="marie") == "root"
    for user, node in (("pierre", "head"), ("pierre", "login"), ("marie", compute)):
        refused = people.lab.run("sudo -n id -un", node=node, user=user, check=False)
        assert refused.returncode
        assert "password is required" in refused.stderr


def test_jobs_run_as_their_user(people: People) -> None:
    out = people.lab.output("srun -N2 -n2 sh -c 'id -un; touch $HOME/$(hostname)'", user="pierre")
    assert out.split() == ["pierre", "pierre"]
    # As train-model sets it for the members of a team.
    assert people.lab.output("SLURM_UMASK=0002 srun sh -c umask", user="pierre") == "0002"
    names = [node.name for node in people.lab.plan.compute]
    assert people.lab.output("stat -c '%U %n' gpu-*", user="pierre", node="login").split() == [
        word for name in names for word in ("pierre", name)
    ]


def test_all_users_write_the_common_folders_and_run_the_jobs_of_the_product(people: People) -> None:
    folders: Any = people.lab.plan.settings()["folders"]
    # A folder of Enroot that somebody else made first.
    people.root("cd /*/enroot/data && rm -rf user-10001 && install -d -m 777 -o marie user-10001", "gpu-dy-p5-1")
    for user in ("marie", "pierre"):
        job = people.lab.output(f"{folders['scripts']}/current/jobs/host-scan.sbatch --nodes 1", user=user).split()[-1]
        people.lab.wait_for_job(job, states=("COMPLETED", "FAILED"))
        report = f"{folders['results']}/{user}/checks/host-scan/{job}/*.json"
        assert people.root(f"stat -c %U {report}").stdout.split() == [user]
        found = people.root(f"stat -c '%U %a' /*/enroot/data/user-$(id -u {user})", "gpu-dy-p5-1").stdout
        assert found == f"{user} 700\n"
    refused = people.lab.run(f"mv {folders['results']}/marie {folders['results']}/mine", user="pierre", check=False)
    assert "Operation not permitted" in refused.stderr
    people.lab.run(["mkdir", f"{folders['checkpoints']}/marie"], user="pierre")
    own = f"TRAINYARD_JOBS={folders['scripts']}/current/jobs; JOB_FILE=x; . $TRAINYARD_JOBS/lib/job.sh"
    taken = people.lab.run(f"{own}; job::own_folder {folders['checkpoints']}", user="marie", check=False)
    assert people.root("ls -d /*/enroot/data/user-10001.foreign-*/user-10001", "gpu-dy-p5-1").stdout
    refused = people.lab.run("cd /*/enroot/data && mkdir user-9", node="gpu-dy-p5-1", user="pierre", check=False)
    assert "Permission denied" in refused.stderr  # only the prolog makes them, also for two jobs at once
    prolog = "SLURM_JOB_UID=10001 bash /opt/slurm/etc/scripts/prolog.d/15_trainyard_people"
    found = "/run/enroot/user-10001* /*/enroot/*/user-10001*"
    at_once = f"for _ in {{1..50}}; do rm -rf {found}; {prolog} & {prolog} & wait; ls -d {found}; done"
    assert "foreign" not in people.root(at_once, "gpu-dy-p5-1").stdout
    assert f"{folders['checkpoints']}/marie belongs to pierre, not to you" in taken.stderr
    people.lab.run(["rmdir", f"{folders['checkpoints']}/marie"], user="pierre")


def test_a_team_writes_the_folders_of_its_models_and_shares_new_files(people: People) -> None:
    people.lab.run("mkdir /fsx/see/outputs/a && touch /fsx/see/outputs/a/b", user="pierre")
    found = people.root("stat -c '%U %G %a' /fsx/see/outputs /fsx/see/outputs/a/b").stdout.splitlines()
    assert found == ["ubuntu vision 2775", "pierre vision 644"]
    nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    refused = people.root(f"{nobody} touch /fsx/see/outputs/c", check=False)
    assert "Permission denied" in refused.stderr


def test_foreign_users_and_homes_are_left_alone_and_named_with_their_node(people: People) -> None:
    compute = people.lab.plan.compute[0].name
    people.root("useradd --uid 20000 irene", compute)
    people.root("mkdir /home/leo && chown 20001 /home/leo && touch /home/leo/kept")
    before = yaml.safe_load((people.file.parent / "people.yaml").read_text())
    more = [{"name": "irene", "uid": 10010}, {"name": "leo", "uid": 10011}, {"name": "max", "uid": 10012}]
    people.write(before | {"users": [*before["users"], *more]})
    try:
        head = people.everywhere()
        assert [one for one in head["users"]["problems"] if "/home/leo belongs to uid 20001" in one]
        assert people.root("stat -c %u /home/leo").stdout.strip() == "20001"
        [problem] = [node for node in people.apply("head", "plan")["nodes"] if node["problems"]]
        assert problem["node"] == compute
        assert "user irene exists on this node" in " ".join(problem["problems"])
        assert people.root("id -u irene", compute).stdout.strip() == "20000"
        for node in people.all:
            assert people.root("id -u max", node).stdout.strip() == "10012"
    finally:
        people.write(before)
        people.root("userdel irene", compute)
        people.everywhere()
        people.everywhere()
    assert people.root("ls /home/leo").stdout.strip() == "kept"
    for node in people.all:
        assert people.root("id max", node, check=False).returncode
    assert people.root("stat -c %u /home/max").stdout.strip() == "10012"


def test_a_new_user_s_job_does_not_wait_for_the_timer(people: People) -> None:
    before = yaml.safe_load((people.file.parent / "people.yaml").read_text())
    people.write(before | {"users": [*before["users"], {"name": "noor", "uid": 10020, "teams": ["vision"]}]})
    people.publish()
    people.apply()
    compute = people.lab.plan.compute[0].name
    assert people.root("id noor", compute, check=False).returncode
    job = people.lab.output("sbatch --parsable -N2 --wrap 'srun id -un'", user="noor")
    people.lab.wait_for_job(job)
    assert people.lab.output(f"cat slurm-{job}.out", user="noor").split() == ["noor", "noor"]
    assert people.lab.job(job)["Account"] == "vision"  # of apply_shares.py, which apply.sh called
    people.write(before)
    people.everywhere()
    people.everywhere()


def test_a_file_that_others_could_have_written_is_refused(people: People) -> None:
    shared, compute = "/opt/slurm/etc/trainyard/people.json", people.lab.plan.compute[0].name
    people.root(f"chmod 666 {shared}")
    answer = people.apply(compute)
    assert "only root may be able to write it" in answer["users"]["problems"][0]
    people.root(f"chmod 644 {shared}; chown pierre {shared}")
    assert "belongs to uid 10001" in people.apply(compute)["users"]["problems"][0]
    people.root(f"rm {shared}")
    people.everywhere()
    assert people.apply(compute)["users"] == {"changes": [], "problems": []}


def test_a_removed_user_keeps_all_data_and_running_jobs_and_loses_every_way_in(people: People) -> None:
    lab = people.lab
    lab.write("/home/pierre/thesis", "years of work", user="pierre")
    job = lab.output("sbatch --parsable -N1 --exclusive --wrap 'sleep 20; id -u'", user="pierre")
    lab.wait_for_job(job, states=("RUNNING",))
    pending = lab.output("sbatch --parsable -N2 --exclusive --wrap hostname", user="pierre")
    before = yaml.safe_load((people.file.parent / "people.yaml").read_text())
    left = {"users": before["users"][:1], "groups": [{**group, "members": []} for group in before["groups"]]}
    people.write({**left, "removed": [{"name": "pierre", "uid": 10001}]})
    answer = people.everywhere()
    assert "close the account of pierre" in answer["users"]["changes"]
    assert ssh(people, "pierre", "id").returncode
    assert lab.job(pending)["JobState"] == "CANCELLED"
    lab.wait_for_job(job)
    people.everywhere()
    people.everywhere()
    for node in people.all:
        assert people.root("id pierre", node, check=False).returncode
        assert people.root("ls /etc/ssh/trainyard_keys", node).stdout.split() == ["marie"]
        assert people.root("stat -c '%u %n' /home/pierre/thesis", node).stdout.split()[0] == "10001"
    assert people.root("cat /home/pierre/thesis").stdout == "years of work"
    # The number is not given to anybody else, and the same person gets all of it back.
    people.write({**left, "users": [*left["users"], {"name": "eve", "uid": 10001}]})
    assert any("which was pierre's" in one for one in people.everywhere()["users"]["problems"])
    ids = people.root("cat /opt/slurm/etc/trainyard/ids.json", people.lab.plan.compute[0].name).stdout
    assert json.loads(ids)["former"]["10001"] == "pierre"
    people.write(before)
    people.everywhere()
    assert lab.output("cat thesis", user="pierre", node="login") == "years of work"


# --- a directory ---


@pytest.fixture(scope="module")
def curie() -> directory.Person:
    """A user whom only the directory has."""
    return directory.Person("curie", 30000, {"chemistry": 30001})


@pytest.fixture(scope="module")
def with_directory(people: People, curie: directory.Person, tmp_path_factory: pytest.TempPathFactory) -> People:
    """The laboratory after its environment got a directory instead of the file."""
    data = yaml.safe_load(people.file.read_text())
    secret = f"arn:aws:secretsmanager:{data['region']}:{data['account']}:secret:ldap-AbCdEf"
    data["people"] = {
        "directory": {
            "domain": directory.SUFFIX,
            "address": "ldaps://ldap.corp.example.com",
            "read_user": directory.READER,
            "password_secret_arn": secret,
            "ca_certificate": "/etc/ssl/certs/ca-certificates.crt",
            "sssd": {"ldap_schema": "rfc2307", "ldap_id_mapping": False, "entry_cache_timeout": 1},
        }
    }
    file = tmp_path_factory.mktemp("directory") / "directory.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    environment = load(file)
    section: Any = render(environment, references(environment))["DirectoryService"]
    directory.start(people.lab, section, (curie,))
    return People(people.lab, file)


def test_a_user_of_the_directory_is_known_on_all_nodes_and_runs_jobs(
    with_directory: People, curie: directory.Person
) -> None:
    lab = with_directory.lab
    for node in with_directory.all:
        found = with_directory.root("getent passwd curie; id -G curie", node).stdout.split()
        assert found[0].split(":")[:4] == ["curie", "*", "30000", "30000"]
        assert found[1:] == ["30000", "30001"]
    lab.write("/root/ask", f"#!/bin/sh\necho '{curie.password}'\n", node="login", user="root", mode=0o700)
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    line = f"SSH_ASKPASS=/root/ask SSH_ASKPASS_REQUIRE=force setsid ssh {options} curie@head 'id -un; pwd'"
    done = with_directory.root(line, "login", check=False)
    assert done.stdout.split() == ["curie", "/home/curie"], done.stderr  # the home is made at the first login
    refused = lab.run("srun -N2 -n2 id -un", user="curie", check=False)
    assert "Invalid account" in refused.stderr  # docs/shares.md, "Who can submit"
    with_directory.root("/opt/slurm/bin/sacctmgr -i add user curie account=vision")
    assert lab.output("srun -N2 -n2 id -un", user="curie").split() == ["curie", "curie"]


def test_a_wrong_password_does_not_open_a_session(with_directory: People) -> None:
    with_directory.lab.write("/root/ask", "#!/bin/sh\necho wrong\n", node="login", user="root", mode=0o700)
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o NumberOfPasswordPrompts=1"
    line = f"SSH_ASKPASS=/root/ask SSH_ASKPASS_REQUIRE=force setsid ssh {options} curie@head id"
    done = with_directory.root(line, "login", check=False)
    assert "Permission denied" in done.stderr


def test_a_directory_that_does_not_answer_is_reported_with_the_node(with_directory: People) -> None:
    assert with_directory.everywhere()["users"]["problems"] == []
    with_directory.root("systemctl stop slapd", "aws")
    head = with_directory.everywhere()
    assert "ldaps://ldap.corp.example.com does not answer" in head["users"]["problems"][0]
    named = {node["node"] for node in with_directory.apply("head", "plan")["nodes"]}
    assert named == {name.split(".")[0] for name in with_directory.others}
    # Who was known stays known, so that jobs go on.
    assert with_directory.lab.output("id -u", user="curie") == "30000"
    with_directory.root("systemctl start slapd", "aws")
    assert with_directory.everywhere()["users"]["problems"] == []


def test_login_nodes_need_a_pool() -> None:
    with pytest.raises(Problem, match=r"cluster\.login_nodes"):
        make(load(ROOT / "environments" / "local.yaml"), logins=1)
