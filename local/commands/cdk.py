"""Runs the CDK CLI against the emulator, without the user's AWS settings."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
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


def environment_for(emulator_env: Mapping[str, str]) -> dict[str, str]:
    """The CLI's whole environment: the emulator's variables, and those of `KEPT`."""
    return {**{key: os.environ[key] for key in KEPT if key in os.environ}, **emulator_env}


def run(emulator: Emulator, *arguments: str, log: Path) -> int:
    """Run the CLI with its output at the end of `log`; returns its exit status.

    Raises:
        Problem: the emulator exited or the time limit passed, and the CLI was stopped; without that, it would retry
            requests for minutes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        stream.write(f"\n$ cdk {' '.join(arguments)}\n")
        stream.flush()
        process = subprocess.Popen(
            [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments],
            cwd=ROOT,
            env=environment_for(emulator.env()),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + TIME_LIMIT_S
    reason = ""
    try:
        while not reason:
            try:
                code = process.wait(GUARD_INTERVAL_S)
                reason = exit_reason(emulator) if code and not emulator.alive else ""
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    reason = f"it took more than {TIME_LIMIT_S / 60:.0f} minutes."
                elif not emulator.alive:
                    reason = exit_reason(emulator)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if reason:
        raise Problem(f"cdk {arguments[0]} was stopped: {reason}\nIts output: {log}")
    return code
