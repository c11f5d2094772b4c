"""Runs the checkout's CDK CLI."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ops.lock import open_private
from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
GUARD_INTERVAL_S = 2.0

# Linux ends the CLI with the command that runs it, also with one that is killed. Not in macOS's C library.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def run(*arguments: str, env: Mapping[str, str], log: Path, guard: Callable[[], str] = lambda: "") -> int:
    """Run the CLI with its output at the end of `log`; returns its exit status.

    Args:
        env: the CLI's whole environment.
        guard: asked every GUARD_INTERVAL_S seconds; a reason that it returns stops the CLI.

    Raises:
        Problem: the CLI is not installed, or the guard stopped it.
    """
    program = ROOT / "node_modules" / ".bin" / "cdk"
    if not program.exists():
        raise Problem(f"The CDK CLI is not installed: {program} is missing. Run: make setup")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_private(log, "a") as stream:
        stream.write(f"\n$ cdk {' '.join(arguments)}\n")
        stream.flush()
        process = subprocess.Popen(
            [str(program), *arguments],
            cwd=ROOT,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_prctl and partial(_prctl, _PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509 - one system call
        )
    reason = ""
    try:
        while not reason:
            try:
                code = process.wait(GUARD_INTERVAL_S)
                reason = guard() if code else ""
                break
            except subprocess.TimeoutExpired:
                reason = guard()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if reason:
        raise Problem(f"cdk {arguments[0]} was stopped: {reason}\nIts output: {log}")
    return code
