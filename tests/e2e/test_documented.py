"""The commands that README, tutorial and decisions print, on a pseudo-terminal, where Docker runs no foreign image."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stubs import fake_command

from .conftest import LIMIT_S, ROOT, Local, users_environment

pytestmark = pytest.mark.e2e

DOCKER = """\
#!/bin/sh
# A Docker without emulation of other processors.
echo "$@" >>"{log}"
case "$*" in *--platform*) echo "exec /bin/sh: exec format error" >&2; exit 255;; esac
"""
KEEPS_NOTHING = "retention: {buckets: delete-if-empty, file_systems: delete, images: delete, logs: delete}"
PAGES = ("README.md", "docs/tutorial.md", "docs/decisions/0004-references-between-stacks.md")
COMMAND = re.compile(r"node_modules/\.bin/cdk [a-z][^`\n]*-c env=mine")


def documented() -> list[str]:
    """The commands of the CDK CLI for the environment `mine`, each once, as a user comes to them."""
    found = [" ".join(line.split()) for page in PAGES for line in COMMAND.findall((ROOT / page).read_text("utf-8"))]
    return sorted(dict.fromkeys(found), key=lambda line: "destroy" in line)


def on_a_terminal(line: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Run a command as at a keyboard, and confirm what it asks: its exit status and its output."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (50, 200))  # without a size, the CDK CLI prints one character per line
    terminal: Any = {"stdin": slave, "stdout": slave, "stderr": slave}
    with subprocess.Popen(line, cwd=ROOT, env=env, start_new_session=True, **terminal) as process:
        os.close(slave)
        said, answered, end = "", 0, time.monotonic() + LIMIT_S
        try:
            while time.monotonic() < end and select.select([master], [], [], end - time.monotonic())[0]:
                said += os.read(master, 4096).decode(errors="replace")
                if said.find("(y/n)", answered) >= 0:
                    answered = len(said)
                    os.write(master, b"y\n")
        except OSError:  # Linux ends a terminal that nobody holds open with EIO
            return process.wait(LIMIT_S), said
        finally:
            os.close(master)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError(f"{line} did not end within {LIMIT_S} s:\n{said}")


def test_every_documented_command_works_as_printed(local_of: Callable[[str], Local], tmp_path: Path) -> None:
    commands = documented()
    assert [line.split()[1] for line in commands][:3] == ["bootstrap", "diff", "deploy"]
    assert commands[-1].split()[1] == "destroy"
    local = local_of("guide-2xg5")
    # Stacks that keep data have termination protection, with which `cdk destroy` fails.
    local.edit("(?m)^name: guide", f"name: mine\n{KEEPS_NOTHING}")
    log = tmp_path / "docker.log"
    docker = fake_command(tmp_path / "docker-without-emulation" / "docker", DOCKER.format(log=log))
    env = users_environment(local.home)
    # CDK_OUTPUT as --output: other tests synthesize in this checkout meanwhile.
    env |= {"PATH": f"{docker.parent}:{env['PATH']}", "CDK_OUTPUT": str(tmp_path / "cdk.out")}
    within = [sys.executable, "-m", "cli", "exec", str(local.file), "--state", str(local.state)]
    within += ["--port", str(local.port), "--start", "--"]
    for command in commands:
        status, said = on_a_terminal([*within, *command.replace("env=mine", f"env={local.file}").split()], env)
        assert status == 0, f"{command}\n{said}\n{local.logs()}"
        assert "Traceback" not in said
        if "deploy --all" in command:
            assert re.search(r"mine-cluster", said)
            assert "CREATE_COMPLETE" in local.ok("status")
    assert "--platform" not in (log.read_text() if log.exists() else "")
