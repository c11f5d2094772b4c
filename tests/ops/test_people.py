"""`trainyard user`: the people file is changed in place or not at all; answers of the head node become lines."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import main
from ops import people, people_edit
from ops.problem import Problem
from ops.validation import head_node
from settings import Faults, load
from tests.ops.head_node_stub import HeadNodeStub
from tests.settings.conftest import write_edited
from tests.settings.test_people import ADA, GRACE, TOP
from trainyard.pipeline.actions import PEOPLE as PERMITTED

TEXT = f"""\
# Who may work here.
users:
  - name: ada  # leads
    uid: 10000
    keys:
      - {ADA}
    teams: [vision]
  # Since May.
  - name: grace
    uid: 10001

# Folders.
groups:
  - name: vision
    gid: 10002
  - {{name: shared, gid: 10003, members: [ada, grace]}}
  - name: other
    gid: 10004
    members:
      - grace
removed: []
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An environment file with a people file."""
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "team.yaml").write_text(TEXT, encoding="utf-8")
    return write_edited({**TOP, "people": {"file": "people/team.yaml"}}, tmp_path)


def text_of(file: Path) -> str:
    return (file.parent / "people" / "team.yaml").read_text(encoding="utf-8")


def add(file: Path, name: str, **more: Any) -> int:  # noqa: ANN401 - arguments of add
    return people.add(file, name, **{"keys": [], "teams": [], "administrator": False, "quota": None, **more})


def test_a_user_is_added_with_an_id_above_all_others_and_the_rest_stays(file: Path) -> None:
    assert add(file, "linus", keys=[GRACE], administrator=True) == 10005
    after = text_of(file)
    added = f"\n  - name: linus\n    uid: 10005\n    keys:\n    - {GRACE}\n    administrator: true"
    assert after == TEXT.replace("    uid: 10001", f"    uid: 10001{added}")
    assert [user.name for user in load(file).people.content.users] == ["ada", "grace", "linus"]


def test_a_team_gets_its_group(file: Path) -> None:
    assert add(file, "linus", teams=["speech", "vision"]) == 10005
    content = load(file).people.content
    assert [(group.name, group.gid) for group in content.groups][-1] == ("speech", 10006)
    assert content.users[-1].teams == ("speech", "vision")


def test_a_removed_user_leaves_groups_keeps_the_id_and_comes_back_with_it(file: Path) -> None:
    assert people.remove(file, "grace") == 10001
    content = load(file).people.content
    assert [group.members for group in content.groups] == [(), ("ada",), ()]
    assert [(gone.name, gone.uid) for gone in content.removed] == [("grace", 10001)]
    assert "# Folders." in text_of(file)
    assert "# leads" in text_of(file)
    assert add(file, "linus") == 10005
    assert add(file, "grace") == 10001
    assert load(file).people.content.removed == ()


def test_a_key_over_several_lines_does_not_take_the_next_section_along(file: Path) -> None:
    folded = ADA.replace(" ", "\n        ", 1)
    text = f"users:\n  - name: ada\n    uid: 10000\n    keys:\n      - >-\n        {folded}\nremoved:\n  - name: carl\n"
    (file.parent / "people" / "team.yaml").write_text(f"{text}    uid: 10001\n", encoding="utf-8")
    assert people.remove(file, "ada") == 10000
    content = load(file).people.content
    assert (content.users, [gone.name for gone in content.removed]) == ((), ["carl", "ada"])


def test_the_id_of_a_removed_user_with_the_highest_one_is_not_given_again(file: Path) -> None:
    add(file, "linus")
    people.remove(file, "linus")
    assert add(file, "ken") == 10006


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: add(file, "ada"), "exists already"),
        (lambda file: people.remove(file, "ken"), "There is no user ken"),
        (lambda file: add(file, "ken", teams=["audio"]), "one of the environment's teams: vision, speech"),
        (lambda file: add(file, "root"), "neither the operating system"),
        (lambda file: add(file, "Ken"), "a Linux name"),
        (lambda file: add(file, "ken", keys=[ADA]), "a key of ada"),
        (lambda file: add(file, "ken", keys=["ssh-ed25519 AAAA"]), "is not an SSH public key"),
        (lambda file: add(file, "ken", keys=["/nowhere"]), "cannot be read"),
    ],
)
def test_wrong_input_leaves_the_file_as_it_was(change: Any, words: str, file: Path) -> None:  # noqa: ANN401
    with pytest.raises((Faults, Problem), match=words):
        change(file)
    assert text_of(file) == TEXT


def test_a_private_key_is_refused_and_never_shown(file: Path, tmp_path: Path) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with pytest.raises(Problem, match="is a private key") as raised:
        add(file, "ken", keys=[str(key)])
    assert key.read_text().splitlines()[1] not in str(raised.value)
    assert add(file, "ken", keys=[str(key.with_suffix(".pub"))]) == 10005


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("10001", "10000"), "10000, as users"),
        ("{users: [{name: ada, uid: 10000}]}", "change it by hand"),
    ],
)
def test_a_file_with_faults_or_of_another_form_is_not_changed(text: str, words: str, file: Path) -> None:
    (file.parent / "people" / "team.yaml").write_text(text, encoding="utf-8")
    with pytest.raises((Faults, Problem), match=words):
        add(file, "ken")
    assert text_of(file) == text


def test_the_first_user_makes_the_file_and_the_mode_of_an_old_one_stays(file: Path) -> None:
    target = file.parent / "people" / "team.yaml"
    target.chmod(0o640)
    add(file, "ken")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.unlink()
    assert add(file, "ken") == 10000
    people.remove(file, "ken")
    assert load(file).people.content.users == ()


def test_an_environment_without_a_people_file_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"people/base\.yaml"):
        add(write_edited({}, tmp_path), "ken")


def test_lists_in_one_line_are_edited_too() -> None:
    text = "users: [{name: ada, uid: 10000}]  # short\n"
    assert "name: ken" in people_edit.insert(text, "users", {"name": "ken", "uid": 10001})
    assert people_edit.delete(text, "users", "ada") == "users: []  # short\n"


def test_list_and_no_apply_on_the_command_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["user", "add", str(file), "linus", "--no-apply"]) == 0
    assert main(["user", "remove", str(file), "grace", "--no-apply"]) == 0
    assert main(["user", "list", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Added linus (10005)" in lines[0]
    assert lines[1].startswith("Without a team linus cannot submit jobs. Teams: vision")
    assert [line.split()[:2] for line in lines[4:]] == [["ada", "10000"], ["linus", "10005"], ["grace", "10001"]]


def test_nothing_is_up_so_only_the_file_changes(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["user", "add", str(file), "linus", "--state", str(tmp_path / "state")]) == 0
    assert "Nothing was applied" in capsys.readouterr().out
    assert "linus" in text_of(file)


def test_answers_become_lines() -> None:
    part = {"changes": ["create user ada (10000)"], "problems": []}
    nodes = [{"node": "gpu-1", "problems": [people.LATE]}]
    answer = {"published": True, "node": "head", "users": part, "shares": None, "nodes": nodes}
    lines, good = people.report(answer)
    assert good
    assert lines == ["head: create user ada (10000)", f"gpu-1: {people.LATE}; it looks every 2 minutes"]
    bad = {"node": "gpu-2", "problems": ["user ada exists on this node"]}
    lines, good = people.report(answer | {"nodes": [bad]})
    assert not good
    assert lines[-1] == "PROBLEM on gpu-2: user ada exists on this node"
    assert people.report({"published": False})[1] is False


# --- the account ---


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(head_node, "_FIRST_PAUSE_S", 0.0)
    stub = HeadNodeStub("people", "base")
    yield stub
    stub.ended()


def test_people_are_stored_and_applied_with_the_listed_permissions(file: Path, account: Any) -> None:  # noqa: ANN401
    environment = load(file)
    account.has_parameter(account.parameter, account.document)
    account.has_parameter("/trainyard/base/buckets/assets", "the-assets")
    account.stubs["s3"].add_response("put_object", {})
    people.publish(account, environment)
    stored = account.sent["s3:PutObject"]
    assert (stored["Bucket"], stored["Key"]) == ("the-assets", "cluster/people.json")
    content = json.loads(stored["Body"].getvalue())
    assert [user["name"] for user in content["users"]] == ["ada", "grace"]
    assert [team["name"] for team in content["teams"]] == ["vision", "speech"]
    account.deployed("running")
    account.answers("plan", out={"published": True})
    assert people.ask(account, environment, "plan") == {"published": True}
    assert {*account.sent, "sts:GetCallerIdentity"} == set(PERMITTED)


def test_without_people_here_or_there_nothing_is_stored(file: Path, tmp_path: Path, account: Any) -> None:  # noqa: ANN401
    account.stubs["ssm"].add_client_error("get_parameter", "ParameterNotFound")
    with pytest.raises(people.NotDeployed, match="not deployed with people"):
        people.publish(account, load(file))
    with pytest.raises(Problem, match="no people, teams"):
        people.publish(account, load(write_edited({}, tmp_path)))
    assert "s3:PutObject" not in account.sent
