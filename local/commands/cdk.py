"""Runs the real CDK CLI against the world, with the user's AWS settings kept out of its environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.commands import gone
from local.commands.session import ROOT
from ops.problem import Problem

if TYPE_CHECKING:
    from local.emulator.launch import Emulator

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION")
"""Variables of the user's that reach the CDK CLI. No AWS_* is among them."""

TIME_LIMIT_S = 45 * 60
"""A custom resource that never answers would otherwise hold the CLI for an hour."""

GUARD_INTERVAL_S = 2.0

COLUMN = 20
CUT_STATUSES = (
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
    "UPDATE_ROLLBACK_IN_PROGRESS",
    "UPDATE_ROLLBACK_FAILED",
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
)

_EVENT = re.compile(
    r"^(?P<stack>[\w-]+)\s*\|\s*(?P<done>\d+)?(?:/(?P<total>\d+))?\s*\|\s*[^|]+\|\s*"
    r"(?P<status>[A-Z_]+)\s*\|\s*(?P<type>[\w:]+)\s*\|\s*(?P<name>.*)$"
)


@dataclass(frozen=True)
class Event:
    """One line of `--progress events`."""

    stack: str
    status: str
    type: str
    name: str


def parse_event(line: str) -> Event | None:
    """The stack event that a line of the CLI tells of, if it tells of one."""
    found = _EVENT.match(line)
    if not found:
        return None
    return Event(found["stack"], _whole(found["status"]), found["type"], found["name"].strip())


def _whole(status: str) -> str:
    """The CLI cuts a status to the width of its column; what is left still tells the longest ones apart."""
    return next((whole for whole in CUT_STATUSES if whole.startswith(status) and len(status) >= COLUMN), status)


def environment_for(world_env: Mapping[str, str]) -> dict[str, str]:
    """The CLI's whole environment: the world's variables and a few of the user's that have nothing to do with AWS."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return {**kept, **world_env}


def run(world: Emulator, *arguments: str, log: Path, on_line: Callable[[str], None] | None = None) -> int:
    """Run the CLI to its end and hand each line of its output to `on_line`. The whole output is appended to `log`.

    Raises:
        Problem: the world ended meanwhile, which the CLI would take two minutes of retries to notice, or the time limit
            passed; the CLI was stopped.
    """
    command = [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments]
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment_for(world.env()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
        start_new_session=True,
    )
    guard = _Guard(process, world, TIME_LIMIT_S)
    guard.start()
    try:
        with log.open("a") as kept:
            kept.write(f"\n$ cdk {' '.join(arguments)}\n")
            for line in _lines(process):
                kept.write(line + "\n")
                if on_line:
                    on_line(line)
        code = process.wait()
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        guard.stop()
    if code and guard.reason:
        raise Problem(f"cdk {arguments[0]} was stopped: {guard.reason}\nEverything it said: {log}")
    return code


class _Guard(threading.Thread):
    """Ends the CLI where its time is over or its world is gone; `reason` says which."""

    def __init__(self, process: subprocess.Popen[str], world: Emulator, limit_s: float) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._world = world
        self._limit_s = limit_s
        self._done = threading.Event()
        self.reason = ""

    def run(self) -> None:
        end = time.monotonic() + self._limit_s
        while not self._done.wait(GUARD_INTERVAL_S):
            if time.monotonic() > end:
                self.reason = f"it took more than {self._limit_s / 60:.0f} minutes."
            elif not self._world.alive:
                self.reason = gone.reason(self._world)
            if self.reason:
                _end(self._process)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()
        if not self.reason and self._process.returncode and not self._world.alive:
            self.reason = gone.reason(self._world)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None  # noqa: S101 - stdout=PIPE above
    for line in process.stdout:
        yield line.rstrip("\n")


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
