"""Laboratory and end-to-end tests (docs/testing.md): a second attempt is listed and hides no real failure."""

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
FOLDER = """
import pytest
@pytest.fixture(scope="session")
def laboratory():
    yield
    print("ended")
@pytest.mark.lab
def test_in_the_laboratory(laboratory):
    print("ran")
"""


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with the conftest.py of this project."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -q\n")
    line = [sys.executable, "-m", "pytest", *options, str(folder)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_laboratory_ends_with_the_last_test_of_its_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").write_text(FOLDER)
    done = pytest_in(tmp_path, "-s")
    assert re.findall("ran|ended", done.stdout) == ["ran", "ended", "ran", "ended"], done.stdout + done.stderr


def test_a_second_run_is_listed_and_a_second_failure_fails(tmp_path: Path) -> None:
    options = re.findall(r"--rerun\S*|-rfER", (ROOT / "Makefile").read_text())
    assert options == ["--reruns=1", "-rfER", "--rerun-show-tracebacks"]
    (tmp_path / "test_it.py").write_text(TESTS)
    done = pytest_in(tmp_path, "-n", "2", "--dist", "loadgroup", *options)
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
