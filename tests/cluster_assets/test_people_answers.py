"""apply.sh on a head node in a folder: answers of apply_users.py, a stand-in here, and reports of other nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster_assets.conftest import ASSETS


def answer(folder: Path, program: str, reports: dict[str, str] | None = None) -> dict[str, Any]:
    """The answer of `apply.sh plan` with a text in place of apply_users.py, and with reports of other nodes."""
    shutil.copytree(ASSETS, folder / "assets")
    files = {
        "assets/people/apply_users.py": program,
        "bin/aws": '#!/bin/sh\necho \'{"teams": [], "qos": [], "reservations": []}\' >"$7"\n',
        "root/etc/chef/dna.json": '{"cluster": {"node_type": "HeadNode"}}',
        "root/opt/trainyard/settings.json": '{"buckets": {"assets": "a"}, "region": "us-east-1"}',
        **{f"root/opt/slurm/etc/trainyard/nodes/{name}.json": text for name, text in (reports or {}).items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "bin/aws").chmod(0o755)
    changed = {"TRAINYARD_ROOT": str(folder / "root"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    line: list[str | Path] = ["bash", folder / "assets/people/apply.sh", "plan"]
    done = subprocess.run(line, env=os.environ | changed, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "apply_users.py ended with status 137"),
        ("raise KeyError('users')", "KeyError: 'users'"),
    ],
)
def test_a_program_without_an_answer_is_a_problem(program: str, problem: str, tmp_path: Path) -> None:
    users = answer(tmp_path, program)["users"]
    assert (users["changes"], [problem in one for one in users["problems"]]) == ([], [True])


def test_the_longest_answer_is_cut_to_what_systems_manager_keeps(tmp_path: Path) -> None:
    """A directory of two servers that 80 nodes cannot reach, at the first run for 1000 users."""
    program = "import json; print(json.dumps({'changes': ['c' * 60] * 2000, 'problems': ['p' * 5000] * 21}))"
    words = {"problems": ["p" * 250, "p" * 250, "q" * 80], "sha256": "", "time": 4_000_000_000}
    reports = {f"gpu-dy-p5-{number}": json.dumps({"node": f"gpu-dy-p5-{number}", **words}) for number in range(80)}
    found = answer(tmp_path, program, reports)
    assert len(json.dumps(found)) < 24_000
    lists = (found["users"]["changes"], found["users"]["problems"], found["nodes"])
    assert [one[-1] for one in lists] == ["and 1950 more", "and 1 more", "and 60 more"]
