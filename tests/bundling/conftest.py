"""A function to bundle, and engines to bundle with."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FIXTURE = Path(__file__).parent / "fixture"
SYNTHESIS = Path(__file__).parent / "synthesis.py"


@dataclass(frozen=True)
class Bundled:
    """The asset of a synthesized function."""

    folder: Path
    template: Mapping[str, Any]

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Mode and content of each file."""
        return {
            str(path.relative_to(self.folder)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The fixture function, in a folder of the test's own."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def synthesize(tmp_path: Path) -> Callable[[Path], Bundled]:
    """Synthesize a stack with the function; each call in a process and into a cloud assembly of its own.

    CDK itself reads CDK_DOCKER in its Node process, which lives as long as the Python process that started it.
    """
    calls = iter(range(100))

    def run(source: Path) -> Bundled:
        output = tmp_path / f"cdk.out.{next(calls)}"
        done = subprocess.run(
            [sys.executable, SYNTHESIS, str(source), str(output)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        folders = [path for path in output.glob("asset.*") if path.is_dir()]
        assert len(folders) == 1
        return Bundled(folders[0], json.loads((output / "Stack.template.json").read_text(encoding="utf-8")))

    return run


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Docker client whose daemon does not run."""
    client = tmp_path / "docker-without-daemon"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon.' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("CDK_DOCKER", str(client))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for a container engine: records its arguments and does the command's work with the folders mounted.

    Where a container would mount /asset-input and /asset-output, the stand-in puts the real folders into the command;
    the command itself is CDK's, run by bash, with the project's own interpreter as the image's `python`.
    Returns the file with one JSON list of arguments a line.
    """
    log, programs = tmp_path / "docker.log", tmp_path / "image-bin"
    programs.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    rsync = programs / "rsync"
    real_rsync = shutil.which("rsync")
    rsync.write_text(f'#!/bin/sh\nexec {real_rsync} "$@"\n' if real_rsync else _RSYNC.format(python=sys.executable))
    docker = tmp_path / "docker"
    docker.write_text(_STAND_IN.format(python=sys.executable, log=str(log), programs=str(programs)))
    for program in (python, rsync, docker):
        program.chmod(0o755)
    monkeypatch.setenv("CDK_DOCKER", str(docker))
    return log


def recorded(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


_STAND_IN = """#!{python}
import json, os, subprocess, sys

arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
if arguments[0] != "run":
    sys.exit(0)
environment = {{"PATH": {programs!r} + os.pathsep + os.environ["PATH"]}}
environment.update((key, os.environ[key]) for key in ("HOME", "PIP_INDEX_URL", "PIP_CONFIG_FILE") if key in os.environ)
folders = {{}}
for option, value in zip(arguments, arguments[1:]):
    if option == "--env":
        key, _, text = value.partition("=")
        environment[key] = text
    if option == "-v":
        host, inside, *_ = value.split(":")
        folders[inside] = host
command = arguments[arguments.index("bash") :]
for inside, host in folders.items():
    command = [part.replace(inside, host) for part in command]
sys.exit(subprocess.run(command, env=environment, stdout=sys.stderr, cwd="/").returncode)
"""


# Where the machine has no rsync: `rsync -rLv --exclude=... source/ target`, as CDK calls it.
_RSYNC = """#!{python}
import shutil, sys

options = [part for part in sys.argv[1:] if part.startswith("-")]
source, target = [part for part in sys.argv[1:] if not part.startswith("-")]
assert "-rLv" in options and source.endswith("/"), sys.argv
patterns = [part.removeprefix("--exclude=") for part in options if part.startswith("--exclude=")]
shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*patterns))
"""
