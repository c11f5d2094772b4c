"""The second attempt of laboratory and end-to-end tests (docs/testing.md): it is listed, and hides no real failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def attempt(name: str) -> int:
    with (HERE / name).open("a") as file:
        file.write("x")
    return len((HERE / name).read_text())


@pytest.fixture(scope="session")
def laboratory() -> str:
    assert attempt("set-up") > 1, "the first set-up fails"
    return "ready"


@pytest.mark.xdist_group("one")
def test_set_up_fails_once(laboratory: str) -> None:
    assert laboratory == "ready"


@pytest.mark.xdist_group("one")
def test_fails_once() -> None:
    assert attempt("once") > 1


@pytest.mark.xdist_group("two")
def test_fails_twice() -> None:
    attempt("twice")
    assert not "broken"
"""


def test_a_second_run_is_listed_and_a_second_failure_fails(tmp_path: Path) -> None:
    options = re.findall(r"--rerun\S*|-rfER", (ROOT / "Makefile").read_text())
    assert options == ["--reruns=1", "-rfER", "--rerun-show-tracebacks"]
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -q\n")
    line = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *options, str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    listed = re.findall(r"^(RERUN|FAILED) test_it\.py::(\w+)", done.stdout.split("rerun test summary info")[1], re.M)
    assert set(listed) == {
        ("RERUN", "test_set_up_fails_once"),
        ("RERUN", "test_fails_once"),
        ("RERUN", "test_fails_twice"),
        ("FAILED", "test_fails_twice"),
    }
    assert "the first set-up fails" in done.stdout
    assert (tmp_path / "twice").read_text() == "xx"
