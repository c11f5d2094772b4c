"""Starting and finding an emulator: what goes wrong is said in words."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from local.emulator import launch, processes
from local.slurm import remote
from ops.problem import Problem
from settings import environment_file, load


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server((launch.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(launch.EmulatorError, match=rf"port {port} .* in use.*PORT=NUMBER"):
            launch.start(tmp_path, "111122223333", "us-east-1", port, port)


@pytest.mark.parametrize(
    "state",
    ['{"account": "1", "region": "us-east-1", "port": 1, "api_port": 2, "pids": [4194303]}', "{"],
    ids=["killed", "broken"],
)
def test_a_state_file_without_its_emulator(tmp_path: Path, state: str) -> None:
    (tmp_path / "state.json").write_text(state)
    (tmp_path / "tmp").mkdir()
    assert launch.find(tmp_path) is None
    launch.stop(tmp_path)
    assert (tmp_path / "tmp").is_dir(), "without emulator.json the files are not an emulator's"
    (tmp_path / "emulator.json").touch()
    launch.stop(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["emulator.json"]


def test_a_child_sees_none_of_the_callers_aws_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    emulator = launch.Emulator(tmp_path, "111122223333", "us-east-1", 4600, 4601, ())
    found = emulator.child_environment()
    assert "AWS_PROFILE" not in found
    assert "AWS_SESSION_TOKEN" not in found
    assert found["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4600"
    assert found["AWS_CONFIG_FILE"] == os.devnull
    assert found["AWS_ACCESS_KEY_ID"] == "111122223333"


def test_laboratory_has_as_many_nodes_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = load(environment_file("prod"))
    monkeypatch.delenv(remote.NODES_EACH, raising=False)
    for given, nodes in (("", [2, 2]), ("8", [8, 2]), ("250", [16, 2])):
        if given:
            monkeypatch.setenv(remote.NODES_EACH, given)
        found = [node.queue for node in remote.plan_of(environment).compute]
        assert [found.count("gpu"), found.count("cpu")] == nodes
    assert remote.NODES_EACH in processes.KEPT
    for wrong in ("0", "251", "two", ""):
        monkeypatch.setenv(remote.NODES_EACH, wrong)
        with pytest.raises(Problem, match=f"TRAINYARD_LAB_NODES is '{wrong}'; allowed: 1 to 250"):
            remote.plan_of(environment)
