"""A local default of its own for each test: own ports, own state folder, own copy of the environment file."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from local.emulator import launch
from local.slurm import base

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600


def free_ports(count: int = 2) -> int:
    """First of some neighbouring free ports on loopback.

    They are below Linux's ports of outgoing connections (from 32768), which could take one before the caller does.
    """
    for _ in range(50):
        first = random.SystemRandom().randrange(20_000, 32_000)
        with ExitStack() as probes:
            try:
                for port in range(first, first + count):
                    probes.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise RuntimeError(f"no {count} neighbouring free ports on loopback")


def client_of(emulator: launch.Emulator, service: str) -> Any:  # noqa: ANN401 - a boto3 client of any service
    """A client with the key of the emulated account itself."""
    session: Any = boto3.Session(emulator.account, "local", region_name=emulator.region)
    return session.client(service, endpoint_url=emulator.endpoint)


def call_api(emulator: launch.Emulator, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """Status and answer of the genuine ParallelCluster API, around the gate. `path` is what follows /v3/clusters."""
    url = f"http://{launch.HOST}:{emulator.api_port}/v3/clusters{path}"
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - loopback
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def users_environment(home: Path) -> dict[str, str]:
    """An environment in which any look at the user's AWS settings ends in an error."""
    aws = home / ".aws"
    aws.mkdir(parents=True, exist_ok=True)
    for name in ("config", "credentials"):
        (aws / name).write_text("this is [no configuration: reading it is the fault that the test looks for\n")
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
        "HOME": str(home),
        "TRAINYARD_LAB_CACHE": str(base.cache()),
        "AWS_PROFILE": "of-the-user",
        "AWS_ACCESS_KEY_ID": "AKIAOFTHEUSER",
        "AWS_SECRET_ACCESS_KEY": "of-the-user",
        "AWS_ENDPOINT_URL": "http://198.51.100.1",
        "COLUMNS": "200",
    }


@dataclass
class Unfinished:
    """A command that a test breaks off; `output` is whole once the block that `Local.until` opened has ended."""

    process: subprocess.Popen[str]
    output: str = ""


@dataclass
class Local:
    """`trainyard up` etc., as a user runs them. `prefix`: words before the lines of `run` and `until`."""

    file: Path
    state: Path
    home: Path
    port: int
    prefix: tuple[str, ...] = ()

    def run(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; output and errors together in stdout."""
        return subprocess.run(self._line(command, *options), **self._place(), timeout=LIMIT_S, check=False)

    @contextmanager
    def until(self, words: str, command: str, *options: str) -> Iterator[Unfinished]:
        """Start one command and hand it over as soon as it has said `words`, still running; then read it to its end."""
        with subprocess.Popen(
            # A shell's background job ignores SIGINT, and so would all that it starts: the tests, and this.
            ["env", "--default-signal=INT", *self._line(command, *options)],
            **self._place(),
        ) as process:
            assert process.stdout is not None
            run = Unfinished(process)
            for line in process.stdout:
                run.output += line
                if words in line:
                    break
            else:
                raise AssertionError(f"ended without saying {words!r}:\n{run.output}{self.logs()}")
            yield run
            run.output += process.stdout.read()

    def _place(self) -> dict[str, Any]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return {"cwd": ROOT, "env": users_environment(self.home), **streams}

    def _line(self, command: str, *options: str) -> list[str]:
        port = ("--port", str(self.port)) if command == "up" else ()
        line = [sys.executable, "-m", "cli", command, str(self.file), "--state", str(self.state), *port, *options]
        return [*self.prefix, *line]

    def ok(self, command: str, *options: str) -> str:
        """Run one command that must succeed; its output."""
        result = self.run(command, *options)
        assert result.returncode == 0, result.stdout + self.logs()
        assert "Traceback" not in result.stdout
        return result.stdout

    def user(self, action: str, *options: str) -> subprocess.CompletedProcess[str]:
        """`trainyard user ACTION`; output and errors together in stdout."""
        line = [sys.executable, "-m", "cli", "user", action, str(self.file), *options, "--state", str(self.state)]
        return subprocess.run(line, **self._place(), timeout=LIMIT_S, check=False)

    def on_aws(self, command: str, *options: str, **keys: str) -> subprocess.CompletedProcess[str]:
        """Run one command with `--on aws`, where the emulator of this environment is AWS."""
        emulator = launch.find(self.state)
        assert emulator is not None
        folder = str(self.state.with_name("aws"))
        return subprocess.run(
            [sys.executable, "-m", "cli", command, str(self.file), "--on", "aws", "--state", folder, *options],
            **{**self._place(), "env": {**emulator.child_environment(), "COLUMNS": "200", **keys}},
            timeout=LIMIT_S,
            check=False,
        )

    def logs(self) -> str:
        """The last lines of every log of the emulator, for a failure's message."""
        ends = [f"--- {one.name}\n" + "\n".join(one.read_text().splitlines()[-40:]) for one in self.state.glob("*.log")]
        return "\n".join(ends)

    def edit(self, pattern: str, replacement: str) -> None:
        """Replace the one match of a regular expression in the environment file."""
        text, count = re.subn(pattern, replacement, self.file.read_text())
        assert count == 1, f"{pattern} matches {count} times"
        self.file.write_text(text)

    @property
    def name(self) -> str:
        """The environment's name."""
        found: str = yaml.safe_load(self.file.read_text())["name"]
        return found


@contextmanager
def loopback_alone() -> Iterator[tuple[str, ...]]:
    """A network namespace that holds nothing but loopback: the words before a command that runs in it."""
    line = ["unshare", "--map-root-user", "--net", "bash", str(ROOT / "tests" / "e2e" / "alone.sh")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "ready\n"
        yield ("nsenter", f"--target={holder.pid}", "--user", "--net", "--preserve-credentials", "--")


@pytest.fixture
def local_of(tmp_path: Path) -> Iterator[object]:
    """Makes a Local of a shipped environment; what it started is stopped afterwards."""
    made: list[Local] = []

    def make(name: str) -> Local:
        file = tmp_path / f"{name}.yaml"
        shutil.copy(ROOT / "environments" / f"{name}.yaml", file)
        shutil.copytree(ROOT / "environments" / "people", tmp_path / "people", dirs_exist_ok=True)
        local = Local(file, tmp_path / "state", tmp_path / "home", free_ports())
        made.append(local)
        return local

    yield make
    for local in made:
        launch.stop(local.state)
