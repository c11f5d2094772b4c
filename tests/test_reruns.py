"""The second attempt of laboratory and end-to-end tests (docs/testing.md): it is listed, and hides no real failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def attempt(name: str) -> int:
    with (HERE / name).open("a") as file:
        file.write("x")
    return len((HERE / name).read_text())


@pytest.fixture(scope="session")
def laboratory() -> Iterator[str]:
    number = attempt("set-up")
    assert number > 1, "the first set-up fails"
    yield f"laboratory {number}"
    attempt("ended")


@pytest.mark.xdist_group("one")
def test_set_up_fails_once(laboratory: str) -> None:
    assert laboratory == "laboratory 2"


@pytest.mark.xdist_group("one")
def test_fails_once_and_gets_a_new_laboratory(laboratory: str) -> None:
    assert (attempt("once"), attempt("seen " + laboratory)) == (2, 1)


@pytest.mark.xdist_group("two")
def test_fails_twice() -> None:
    attempt("twice")
    assert not "broken"
"""


def test_a_second_run_is_listed_and_a_second_failure_fails(tmp_path: Path) -> None:
    options = re.findall(r"--rerun\S*|-rfER", (ROOT / "Makefile").read_text())
    assert options == ["--reruns=1", "-rfER", "--rerun-show-tracebacks"]
    (tmp_path / "test_it.py").write_text(TESTS)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -q\n")
    line = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *options, str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    listed = re.findall(r"^(RERUN|FAILED) test_it\.py::(\w+)", done.stdout.split("rerun test summary info")[1], re.M)
    assert set(listed) == {
        ("RERUN", "test_set_up_fails_once"),
        ("RERUN", "test_fails_once_and_gets_a_new_laboratory"),
        ("RERUN", "test_fails_twice"),
        ("FAILED", "test_fails_twice"),
    }
    assert "the first set-up fails" in done.stdout
    assert [(tmp_path / name).read_text() for name in ("twice", "set-up", "ended")] == ["xx", "xxx", "xx"]
