"""apply_users.py on a real Debian or Ubuntu root (this machine's own, under an overlay), as root, with its shadow.

Stand-ins: Slurm's commands, which show the jobs of a file, and, where the machine has no sudo, visudo, which refuses
nothing. tests/teams runs the programs with a real Slurm, sudo and sshd.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster_assets.conftest import ASSETS
from tests.cluster_assets.test_real_root import require_overlay
from tests.settings.test_people import ADA

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/etc/debian_version").exists(),
    reason="changes a root: needs root on Debian or Ubuntu",
)
ONE: dict[str, Any] = {"name": "marie", "uid": 10000, "teams": ["vision"], "administrator": True, "keys": [ADA]}
TWO: dict[str, Any] = {"name": "pierre", "uid": 10001, "teams": ["vision"], "administrator": False, "keys": []}
EVE = {**TWO, "name": "eve"}
MAN = {**ONE, "name": "man", "uid": 10009}  # every Debian has a user man
TEAM: dict[str, Any] = {"name": "vision", "gid": 10002, "members": []}
MODELS = [{"name": "see", "team": "vision"}, {"name": "hear", "team": None}]


def people(users: list[dict[str, Any]], groups: list[dict[str, Any]] | None = None) -> str:
    chosen = [TEAM] if groups is None else groups
    return json.dumps({"schema": 1, "users": users, "groups": chosen, "removed": [], "models": MODELS})


class Root:
    """The lines of a session in the root, and their answers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.steps = folder, [""]
        self.file("opt/people/.keep", "")
        for name in ("apply_users.py", "people_node.py"):
            shutil.copy(ASSETS / "people" / name, folder / "files/opt/people" / name)
        folders = {"data": "/fsx/data", "outputs": "/fsx/see/outputs", "logs": "/fsx/link/logs"}
        models = [{"name": "see", "folders": folders}, {"name": "hear", "folders": {"outputs": "/fsx/hear"}}]
        common = {"results": "/fsx/results", "logs": "/fsx/mine", "images": "/fsx/images"}
        settings = {"cluster": {"user": "daemon"}, "models": models, "folders": common, "mounts": []}
        self.file("opt/trainyard/settings.json", json.dumps(settings))
        for name in ("squeue", "scancel"):
            self.file(f"opt/slurm/bin/{name}", "#!/bin/sh\ncat /run/jobs 2>/dev/null; test ! -e /run/down\n").chmod(
                0o755
            )
        self.file("usr/local/sbin/visudo", '#!/bin/sh\ntest -f "$2"\n').chmod(0o755)  # last on the PATH

    def file(self, path: str, text: str) -> Path:
        target = self.folder / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def apply(self, name: str, how: str = "--apply", role: str = "head") -> None:
        self.steps.append(f"python3 /opt/people/apply_users.py /opt/people/{name}.json {how} --role {role}")

    def run(self) -> list[dict[str, Any]]:
        require_overlay()
        (self.folder / "steps").write_text("\n".join(self.steps[1:]) + "\n")
        script = Path(__file__).parent / "people_root.sh"
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
        done = subprocess.run([*namespaces, "bash", script, self.folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in (self.folder / "answers").read_text().splitlines()]
        return [one | (json.loads(one["output"]) if one["output"].startswith("{") else {}) for one in answers]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with people files: `two` users, `one` user, `bad` users, `none`."""
    found = Root(tmp_path)
    found.file("opt/people/two.json", people([ONE, TWO]))
    found.file("opt/people/one.json", people([{**ONE, "administrator": False, "keys": []}]))
    found.file("opt/people/bad.json", people([ONE, MAN, EVE]))
    found.file("opt/people/none.json", people([], []))
    return found


def test_plan_apply_and_nothing_left_to_do(root: Root) -> None:
    for how in ("--plan", "--apply", "--plan", "--apply"):
        root.apply("two", how)
    root.steps.append("id marie; id pierre; stat -c '%U %a' /home/marie /home/marie/.ssh/authorized_keys")
    root.steps.append(
        "cat /etc/sudoers.d/90-trainyard-people /etc/ssh/trainyard_keys/marie; ls /etc/ssh/trainyard_keys"
    )
    plan, first, again, last, ids, rights = root.run()
    assert plan["status"] == 1
    assert plan["changes"] == first["changes"]
    assert "create user marie (10000)" in first["changes"]
    assert [again["status"], again["changes"], last["status"], last["changes"]] == [0, [], 0, []]
    assert ids["output"].splitlines() == [
        "uid=10000(marie) gid=10000(marie) groups=10000(marie),10002(vision)",
        "uid=10001(pierre) gid=10001(pierre) groups=10001(pierre),10002(vision)",
        "marie 700",
        "marie 600",
    ]
    header = "# Written by Trainyard from cluster/people.json; do not edit."
    assert rights["output"].splitlines() == [header, "marie ALL=(ALL) NOPASSWD:ALL", header, ADA, "marie"]


@pytest.mark.parametrize(("role", "homes", "sudo"), [("login", False, True), ("compute", False, False)])
def test_other_nodes_make_no_homes_and_compute_nodes_no_administrators(
    role: str, homes: bool, sudo: bool, root: Root
) -> None:
    root.apply("two", role=role)
    root.steps.append("ls /home; ls /etc/sudoers.d/90-trainyard-people")
    applied, found = root.run()
    assert applied["status"] == 0
    assert ("marie" in found["output"]) is homes
    assert ("90-trainyard-people" in found["output"]) is sudo


def test_foreign_users_get_nothing_and_everybody_else_is_applied(root: Root) -> None:
    root.steps.append("mkdir /home/marie && chown 12345 /home/marie && touch /home/marie/x; md5sum /etc/shadow")
    root.steps.append("useradd --uid 10001 --no-create-home --no-log-init there; getent passwd man")
    root.apply("bad")
    root.steps.append("getent passwd man; ls /etc/ssh/trainyard_keys; cat /etc/sudoers.d/90-trainyard-people")
    root.steps.append("stat -c %u /home/marie; ls /home/marie; id -u marie; id eve")
    _, before, applied, after, home = root.run()
    assert applied["status"] == 2
    problems = " ".join(applied["problems"])
    assert "user man exists on this node and was not made from the people file" in problems
    assert "user eve cannot get the id 10001, which there has on this node" in problems
    assert "/home/marie belongs to uid 12345, not 10000: left as it is" in problems
    assert before["output"] in after["output"]
    assert after["output"].splitlines()[1:] == [
        "marie",
        "# Written by Trainyard from cluster/people.json; do not edit.",
        "marie ALL=(ALL) NOPASSWD:ALL",
    ]
    assert home["output"].split() == ["12345", "x", "10000"]


def test_a_removed_user_keeps_files_and_number_and_may_come_back(root: Root) -> None:
    root.apply("two")
    root.steps.append("echo work >/home/pierre/x; chown 10001 /home/pierre/x; echo 7 >/run/jobs")
    root.apply("one")
    root.steps.append("getent passwd pierre; chage -l pierre; id -Gn pierre; rm /run/jobs")
    root.apply("one")
    root.steps.append("id pierre; stat -c '%u' /home/pierre /home/pierre/x; cat /home/pierre/x; ls /etc/sudoers.d")
    root.file("opt/people/eve.json", people([ONE, EVE]))
    root.apply("eve")
    root.apply("two")
    root.steps.append("id -nG pierre; getent passwd pierre")
    answers = root.run()
    _, _, closed, locked, removed, files, eve, back, again = answers
    assert "close the account of pierre" in closed["changes"]
    assert "keep the closed account of pierre until its jobs end" in closed["changes"]
    assert "/usr/sbin/nologin" in locked["output"]
    assert "Jan 02, 1970" in locked["output"]  # expired
    assert "vision" not in locked["output"].splitlines()[-1]
    assert "remove user pierre; home and files stay" in removed["changes"]
    assert files["output"].split()[:3] == ["10001", "10001", "work"]
    assert "90-trainyard-people" not in files["output"]
    assert "user eve cannot get the id 10001, which was pierre's" in " ".join(eve["problems"])
    assert back["problems"] == []
    assert again["output"].splitlines()[0] == "pierre vision"
    assert again["output"].endswith("/bin/bash")


def test_a_removed_user_keeps_no_process_but_running_jobs(root: Root) -> None:
    start = "setpriv --reuid 10001 --regid 10001 --clear-groups sleep 600 >/dev/null 2>&1 & sleep 0.2"
    left = "sleep 0.2; pgrep --uid 10001 | wc -l"
    steps: list[tuple[str, str, list[str]]] = [
        ("two", "head", [start, "touch /run/down"]),
        ("one", "head", [left, "rm /run/down; echo 7 >/run/jobs", start]),
        ("one", "compute", [left]),
        ("one", "head", [left, start, "rm /run/jobs"]),
        ("one", "compute", [left]),
        ("one", "head", ["id pierre"]),
    ]
    for name, role, after in steps:
        root.apply(name, role=role)
        root.steps += after
    answers = root.run()
    assert [one["output"] for one in answers if one["output"].isdigit()] == ["0", "1", "0", "0"]
    assert any("until Slurm answers" in change for change in answers[3]["changes"])
    assert "no such user" in answers[-1]["errors"]


def test_certificates_that_a_node_lacks_are_a_problem_of_the_directory(root: Root) -> None:
    directory = {"address": "ldaps://localhost", "ca_certificate": "/nowhere.crt", "verify": "hard"}
    people = {"schema": 1, "has_users": False, "users": [], "groups": [], "models": [], "directory": directory}
    root.file("opt/people/directory.json", json.dumps(people))
    root.apply("directory")
    [applied] = root.run()
    assert "/nowhere.crt cannot be read" in applied["problems"][0]


def test_users_of_a_directory_get_the_common_folders(root: Root) -> None:
    """A group of a team's name, which is not the people file's, gets none of the team's folders."""
    models = [{"name": "see", "team": "games"}]
    directory = {"address": "ldaps://localhost", "ca_certificate": "/etc/ca.crt", "verify": "hard"}
    people = {"schema": 1, "has_users": False, "users": [], "groups": [], "models": models}
    root.file("opt/people/shares.json", json.dumps(people))
    root.file("opt/people/directory.json", json.dumps(people | {"directory": directory}))
    root.steps.append(
        "touch /etc/ca.crt; mkdir -p /fsx/see/outputs /fsx/results && chown -R daemon: /fsx && chmod 775 /fsx/results"
    )
    root.apply("shares")
    root.apply("directory")
    root.steps.append("stat -c '%n %U %G %a' /fsx/see/outputs /fsx/results; getent group games; id -u daemon")
    _, shares, directory, found = root.run()
    assert shares["changes"] == []
    assert [change.split(",")[0] for change in directory["changes"]] == ["/fsx/results for all users"]
    assert found["output"].splitlines()[:2] == ["/fsx/see/outputs daemon daemon 755", "/fsx/results daemon daemon 1777"]
    assert "games:" in found["output"]


def test_a_new_node_gives_nobody_an_id_that_another_had_on_the_head_node(root: Root) -> None:
    root.file("opt/people/eve.json", people([ONE, EVE]))
    root.file(
        "opt/people/ids.json", json.dumps({"users": {"marie": 10000}, "groups": {}, "former": {"10001": "pierre"}})
    )
    root.apply("eve", role="login")
    root.steps.append("id marie; id eve")
    applied, found = root.run()
    assert "user eve cannot get the id 10001, which was pierre's" in " ".join(applied["problems"])
    assert found["output"].startswith("uid=10000(marie)")
    assert "no such user" in found["errors"]


def test_an_interrupted_run_goes_on(root: Root) -> None:
    root.steps.append("mkdir /opt/bin; printf '#!/bin/sh\\nexit 9\\n' >/opt/bin/useradd; chmod +x /opt/bin/useradd")
    root.steps.append("PATH=/opt/bin:$PATH python3 /opt/people/apply_users.py /opt/people/two.json --apply")
    root.apply("two")
    root.steps.insert(3, "ls /etc/ssh/trainyard_keys /etc/sudoers.d/90-trainyard-people")
    _, broken, rights, whole = root.run()
    assert broken["status"] == 2
    assert rights["output"] == ""  # a user of that name who is not the file's gets none of its rights
    assert any("useradd" in problem for problem in broken["problems"])
    assert whole["status"] == 0
    assert "create user marie (10000)" in whole["changes"]


def test_common_folders_and_those_of_a_team_s_models(root: Root) -> None:
    root.steps.append("mkdir -p /fsx/{see/outputs,data,hear,results,mine,images} /etc/logs; ln -s /etc /fsx/link")
    root.steps.append("chown -R daemon:daemon /fsx; chown daemon: /etc/logs; chown nobody: /fsx/mine")
    root.steps.append("chmod 775 /fsx/results /fsx/mine /fsx/images")
    root.apply("two")
    names = "/fsx/results /fsx/mine /fsx/images /fsx/see/outputs /fsx/data /fsx/hear /etc/logs"
    root.steps.append(f"stat -c '%n %U %G %a' {names}")
    root.apply("two")
    _, _, _, applied, found, again = root.run()
    assert "/fsx/see/outputs for the group vision" in applied["changes"]
    assert any(change.startswith("/fsx/results for all users") for change in applied["changes"])
    assert again["changes"] == []
    assert found["output"].splitlines() == [
        "/fsx/results daemon daemon 1777",
        "/fsx/mine nobody nogroup 775",
        "/fsx/images daemon daemon 775",
        "/fsx/see/outputs daemon vision 2775",
        "/fsx/data daemon daemon 755",
        "/fsx/hear daemon daemon 755",
        "/etc/logs daemon daemon 755",  # a link on the way is not followed
    ]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("chmod 666 /opt/people/two.json", "only root may be able to write it"),
        ("chown 1 /opt/people/two.json", "belongs to uid 1"),
        ("mv /opt/people/two.json /opt/x; ln -s /opt/x /opt/people/two.json", "cannot be read"),
        ("chmod 777 /opt/people", "only root may be able to write it"),
        ("""sed -i 's/"schema": 1/"schema": 2/' /opt/people/two.json""", "this node knows 1"),
        ("""sed -i 's/10000/0/' /opt/people/two.json""", "is not a name with an id from 10000"),
        ("""sed -i 's/marie/..%2f/' /opt/people/two.json""", "is not a name"),
    ],
)
def test_a_file_that_cannot_be_trusted_changes_nothing(damage: str, words: str, root: Root) -> None:
    root.steps.append(damage)
    root.apply("two")
    root.steps.append("id marie; ls /var/lib/trainyard")
    _, refused, after = root.run()
    assert refused["status"] == 2
    assert words in refused["errors"]
    assert "no such user" in after["errors"]
