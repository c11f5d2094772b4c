"""Build specifications: what is read, what is refused, and in which order phases run."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from local.pipeline.buildspec import parse
from local.pipeline.problem import ActionFailed
from local.pipeline.shell import Outcome, Shell, run_phases


def shell(tmp_path: Path, program: str = "sh", seconds: float = 30) -> Shell:
    source = tmp_path / "src"
    source.mkdir(exist_ok=True)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    return Shell(program, environment, source, tmp_path, tmp_path / "log", time.monotonic() + seconds)


def run(tmp_path: Path, phases: Mapping[str, object], skip: tuple[str, ...] = ()) -> tuple[Outcome, Shell, str]:
    spec = parse(json.dumps({"version": "0.2", "phases": phases}))
    used = shell(tmp_path)
    outcome = run_phases(used, spec, skip)
    marks = tmp_path / "src" / "marks"
    return outcome, used, marks.read_text() if marks.exists() else ""


def runs(pid: str) -> bool:
    """Whether a process is there and no zombie, which only waits to be looked at."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
    return bool(found.strip()) and not found.strip().startswith("Z")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a list", "not a mapping"),
        ("version: 0.1", "this executor runs 0.2"),
        ("{version: 0.2, phasen: {}}", "unknown phasen in buildspec; allowed: version"),
        ("{version: 0.2, phases: {test: {commands: [a]}}}", "unknown test in phases"),
        ("{version: 0.2, phases: {build: {command: [a]}}}", "unknown command in phases.build"),
        ("{version: 0.2, env: {shell: powershell.exe}}", "env.shell is 'powershell.exe'; this executor has sh, bash"),
        ("{version: 0.2, batch: {}}", "does not do batch"),
        ("{version: 0.2, run-as: root}", "does not do run-as"),
        ("version: [", "cannot be read"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ActionFailed, match=said.replace("[", r"\[")):
        parse(text)


def test_variables_and_folder_stay(tmp_path: Path) -> None:
    """The next command finds what the one before assigned, exported or not, and where it went."""
    outcome, used, _ = run(
        tmp_path,
        {
            "install": {"commands": ["PLAIN=one", "mkdir -p sub && cd sub", "export QUOTED='two\nlines'"]},
            "build": {"commands": ['test "$(basename "$PWD")" = sub', "env | grep -qx PLAIN=one", "VERDICT=$PLAIN"]},
        },
    )
    assert outcome == Outcome("", ())
    assert used.environment["VERDICT"] == "one"
    assert used.environment["QUOTED"] == "two\nlines"


def test_exit_in_a_command_ends_that_command_only(tmp_path: Path) -> None:
    outcome, used, _ = run(tmp_path, {"build": {"commands": ["KEPT=yes; exit 0", "test $KEPT = yes"]}})
    assert outcome.failure == ""
    assert used.environment["KEPT"] == "yes"


@pytest.mark.parametrize(
    ("failing", "ran"),
    [
        ("install", ["install"]),
        ("pre_build", ["install", "pre_build"]),
        ("build", ["install", "pre_build", "build", "post_build"]),
    ],
)
def test_order_after_a_failure(tmp_path: Path, failing: str, ran: list[str]) -> None:
    phases = {
        name: {
            "commands": [f"echo {name} >> $HOME/src/marks", "exit 3" if name == failing else ":", "echo never-after"],
            "finally": [f"echo {name}-finally >> $HOME/src/marks"],
        }
        for name in ("install", "pre_build", "build", "post_build")
    }
    outcome, used, marks = run(tmp_path, phases)
    assert marks.split() == [word for name in ran for word in (name, f"{name}-finally")]
    assert outcome.failure == f"{failing}: exit status 3 of: exit 3"
    assert used.environment["CODEBUILD_BUILD_SUCCEEDING"] == ("0" if failing == "build" else "1")


def test_continue(tmp_path: Path) -> None:
    outcome, _, marks = run(
        tmp_path,
        {"build": {"on-failure": "CONTINUE", "commands": ["false"]}, "post_build": {"commands": ["echo x >> marks"]}},
    )
    assert (outcome.failure, marks) == ("", "x\n")


def test_skipped_commands_are_told(tmp_path: Path) -> None:
    outcome, _, marks = run(
        tmp_path, {"build": {"commands": ["make test-fast", "echo x >> marks"]}}, skip=("make test-fast", "make lint")
    )
    assert (outcome, marks) == (Outcome("", ("make test-fast",)), "x\n")
    assert "Skipped, as was asked for: make test-fast" in (tmp_path / "log").read_text()


def test_time_is_over_and_nothing_stays(tmp_path: Path) -> None:
    spec = parse(json.dumps({"version": "0.2", "phases": {"build": {"commands": ["sleep 60 & echo $! > pid; wait"]}}}))
    with pytest.raises(ActionFailed, match="BUILD_TIMED_OUT"):
        run_phases(shell(tmp_path, seconds=1), spec, ())
    pid = (tmp_path / "src" / "pid").read_text().strip()
    end = time.monotonic() + 10
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not runs(pid)
