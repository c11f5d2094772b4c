"""Runs the CDK CLI against the emulator, without the user's AWS settings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.commands.session import ROOT, exit_reason
from ops.problem import Problem

if TYPE_CHECKING:
    from local.emulator.launch import Emulator

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION")
"""The user's variables that reach the CDK CLI: none of AWS."""

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
    """The stack event in a line of the CLI's output, or None."""
    found = _EVENT.match(line)
    if not found:
        return None
    return Event(found["stack"], _whole(found["status"]), found["type"], found["name"].strip())


def _whole(status: str) -> str:
    # The CLI cuts a status to the width of its column; the rest still identifies the longest ones.
    return next((whole for whole in CUT_STATUSES if whole.startswith(status) and len(status) >= COLUMN), status)


def environment_for(emulator_env: Mapping[str, str]) -> dict[str, str]:
    """The CLI's whole environment: the emulator's variables, and those of `KEPT`."""
    return {**{key: os.environ[key] for key in KEPT if key in os.environ}, **emulator_env}


def run(emulator: Emulator, *arguments: str, log: Path, on_line: Callable[[str], None] | None = None) -> int:
    """Run the CLI; returns its exit status. Each line of output goes to `on_line` and to the end of `log`.

    Raises:
        Problem: the emulator exited or the time limit passed, and the CLI was stopped.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments],
        cwd=ROOT,
        env=environment_for(emulator.env()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
        start_new_session=True,
    )
    guard = _Guard(process, emulator, TIME_LIMIT_S)
    guard.start()
    try:
        with log.open("a") as kept:
            kept.write(f"\n$ cdk {' '.join(arguments)}\n")
            for line in process.stdout or ():
                kept.write(line)
                if on_line:
                    on_line(line.rstrip("\n"))
        code = process.wait()
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        guard.stop()
    if code and guard.reason:
        raise Problem(f"cdk {arguments[0]} was stopped: {guard.reason}\nIts output: {log}")
    return code


class _Guard(threading.Thread):
    """Stops the CLI if it runs too long or the emulator exits; without it, the CLI would retry requests for minutes."""

    def __init__(self, process: subprocess.Popen[str], emulator: Emulator, limit_s: float) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._emulator = emulator
        self._limit_s = limit_s
        self._done = threading.Event()
        self.reason = ""

    def run(self) -> None:
        end = time.monotonic() + self._limit_s
        while not self._done.wait(GUARD_INTERVAL_S):
            if time.monotonic() > end:
                self.reason = f"it took more than {self._limit_s / 60:.0f} minutes."
            elif not self._emulator.alive:
                self.reason = exit_reason(self._emulator)
            if self.reason:
                _end(self._process)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()
        if not self.reason and self._process.returncode and not self._emulator.alive:
            self.reason = exit_reason(self._emulator)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
