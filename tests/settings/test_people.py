"""The people file: each rule with good and bad content, at the file's own line; private keys are never shown."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import settings
from settings.model.people import PeopleFile
from settings.rules.people import RESERVED, key_fault
from tests.settings.conftest import apply_edits, write_edited

ADA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIYo2G8a9t7eiqvkENLqetS2LQg9E+XcERA3LIF2obOO ada@example.com"
GRACE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINPWKWEE4LRxw5/HVVxrY+aKIpweccb0q/+ZeGk0HLH0 grace"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
GOOD: dict[str, Any] = {
    "users": [
        {"name": "ada", "uid": 10000, "keys": [ADA], "teams": ["vision"], "administrator": True},
        {"name": "grace", "uid": 10001, "keys": [GRACE], "home_quota_gib": 5},
    ],
    "groups": [{"name": "vision", "gid": 10002}, {"name": "shared", "gid": 10003, "members": ["grace"]}],
    "removed": [{"name": "alan", "uid": 10004}],
}
TOP = {
    "people": {"file": "people/team.yaml", "home_quota_gib": 10},
    "teams": [{"name": "vision"}, {"name": "speech"}],
    "cluster.slurm.accounting": True,
}


def rsa_key(bits: int) -> str:
    """A text of the form of an RSA key, without a private key."""
    parts = [b"ssh-rsa", b"\x01\x00\x01", b"\x00" + (1 << (bits - 1)).to_bytes(bits // 8, "big")]
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-rsa {base64.b64encode(blob).decode()} x"


def load(folder: Path, text: str, top: dict[str, Any] | None = None) -> settings.Environment:
    """The environment with a people file of a text."""
    (folder / "people").mkdir(exist_ok=True)
    (folder / "people" / "team.yaml").write_text(text, encoding="utf-8")
    return settings.load(write_edited(TOP if top is None else top, folder))


def edited(edits: dict[str, Any]) -> str:
    """The good people file with edits."""
    data = copy.deepcopy(GOOD)
    apply_edits(data, edits)
    return yaml.safe_dump(data, sort_keys=False)


def test_the_people_and_their_quotas(tmp_path: Path) -> None:
    people = load(tmp_path, edited({})).people
    assert [user.name for user in people.content.users] == ["ada", "grace"]
    assert people.home_quotas() == {10000: 10, 10001: 5}


def test_a_dumped_people_file_is_the_same(tmp_path: Path) -> None:
    content = load(tmp_path, edited({})).people.content
    assert PeopleFile.model_validate_json(content.model_dump_json(), strict=True) == content


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"users.1.uid": 10000}, "users[1].uid", "10000, as users[0] (ada)"),
    ({"users.1.uid": 10000}, "users[1].uid", "use 10005"),
    ({"users.1.uid": 10002}, "groups[0].gid", "10002, as users[1] (grace)"),
    ({"users.1.uid": 10004}, "users[1].uid", "10004, as removed[0] (alan)"),
    ({"users.1.name": "ada"}, "users[1].name", "ada, as users[0]"),
    ({"users.1.name": "vision"}, "groups[0].name", "vision, as users[1]"),
    ({"removed.0": {"name": "ada", "uid": 10000}}, "removed[0].name", "the user came back"),
    ({"users.0.name": "slurm"}, "users[0].name", "ParallelCluster uses"),
    ({"groups.0.name": "sudo"}, "groups[0].name", "operating system"),
    ({"users.0.name": "Ada"}, "users[0].name", "a Linux name"),
    ({"users.0.uid": 1000}, "users[0].uid", "10000 or more"),
    ({"users.0.uid": 200000}, "users[0].uid", "59999 or less"),
    ({"users.0.teams": ["visoin"]}, "users[0].teams[0]", "vision, speech"),
    ({"users.0.teams": ["speech"]}, "users[0].teams[0]", "speech, which has no group"),
    ({"groups.1.members": ["alan"]}, "groups[1].members[0]", "ada, grace"),
    ({"users.0.keys": ["hello"]}, "users[0].keys[0]", "does not begin with a type of key"),
    ({"users.0.keys": [f'command="id" {ADA}']}, "users[0].keys[0]", "does not begin with a type of key"),
    ({"users.0.keys": [f"{ADA}\n{GRACE}"]}, "users[0].keys[0]", "several lines"),
    ({"users.0.keys": ["ssh-ed25519 !!!! x"]}, "users[0].keys[0]", "not base64"),
    ({"users.0.keys": [ADA[:60]]}, "users[0].keys[0]", "damaged key"),
    ({"users.0.keys": [ADA.replace("ssh-ed25519", "ssh-rsa", 1)]}, "users[0].keys[0]", "not of the type ssh-rsa"),
    ({"users.0.keys": [rsa_key(1024)]}, "users[0].keys[0]", "an RSA key of 1024 bits"),
    ({"users.1.keys": [ADA]}, "users[1].keys[0]", "a key of ada"),
    ({"users.0.keyes": []}, "users[0].keyes", "did you mean keys?"),
    ({"users.0.keys": 5}, "users[0].keys", "a value that may be secret"),
]


@pytest.mark.parametrize(("edits", "key", "text"), BAD, ids=[f"{key}: {text}" for _, key, text in BAD])
def test_bad_people_are_refused_with_file_and_line(edits: dict[str, Any], key: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(settings.Faults) as raised:
        load(tmp_path, edited(edits))
    at_key = [fault for fault in raised.value.faults if fault.key == key]
    assert at_key, raised.value
    assert any(text in str(fault) for fault in at_key), raised.value
    for fault in raised.value.faults:
        assert fault.file == tmp_path / "people" / "team.yaml"
        assert fault.line > 1


def test_faults_of_both_files_are_reported_together(tmp_path: Path) -> None:
    top = {**TOP, "people": {"file": "people/team.yaml"}, "models.0.queue": "nowhere"}
    with pytest.raises(settings.Faults) as raised:
        load(tmp_path, edited({"users.1.uid": 10000}), top)
    assert {fault.file.name for fault in raised.value.faults} == {"edited.yaml", "team.yaml"}


@pytest.mark.parametrize("indent", ["", "      "])
def test_a_private_key_is_refused_and_never_shown(indent: str, tmp_path: Path) -> None:
    pasted = "".join(f"{indent}{line}\n" for line in PRIVATE.splitlines())
    with pytest.raises(settings.Faults) as raised:
        load(tmp_path, f"users:\n  - name: ada\n    uid: 10000\n    keys:\n{indent}- |\n{pasted}")
    [fault] = raised.value.faults
    assert fault.line == 6
    assert "a private key" in str(fault)
    assert "b3BlbnNz" not in str(fault)


def test_a_quota_needs_the_volume_of_the_homes(tmp_path: Path) -> None:
    top = {**TOP, "storage.openzfs.volumes.0.mount": "/shared"}
    with pytest.raises(settings.Faults) as raised:
        load(tmp_path, edited({}), top)
    assert {fault.key for fault in raised.value.faults} == {"people.home_quota_gib", "users[1].home_quota_gib"}


def test_at_most_500_quotas(tmp_path: Path) -> None:
    users = [{"name": f"u{number}", "uid": 10000 + number} for number in range(501)]
    with pytest.raises(settings.Faults, match="501 users with a quota"):
        load(tmp_path, yaml.safe_dump({"users": users}))


def test_a_missing_people_file_is_refused_at_the_environment_s_key(tmp_path: Path) -> None:
    with pytest.raises(settings.Faults) as raised:
        settings.load(write_edited(TOP, tmp_path))
    [fault] = raised.value.faults
    assert (fault.file.name, fault.key) == ("edited.yaml", "people.file")
    assert "users: []" in fault.advice


def test_the_users_of_parallelcluster_are_reserved() -> None:
    """The default users of the AMIs (trainyard.cluster_settings.CLUSTER_USERS) and of its programs."""
    from trainyard.cluster_settings import CLUSTER_USERS

    assert {*CLUSTER_USERS.values(), "pcluster-admin", "slurm", "munge", "root"} <= RESERVED


@pytest.mark.parametrize("text", [ADA, GRACE, rsa_key(2048), rsa_key(4096)], ids=lambda text: text[:20])
def test_good_keys(text: str) -> None:
    assert key_fault(text) == ""
