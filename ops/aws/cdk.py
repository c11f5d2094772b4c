"""Runs the checkout's CDK CLI."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ops.lock import open_private
from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
GUARD_INTERVAL_S = 2.0
STOP_LIMIT_S = 10


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


def end_orphans(assembly: Path) -> list[int]:
    """End runs of the CLI on an assembly, which only a killed command leaves; returns their process groups.

    The caller holds the lock of the environment.
    """
    groups = _runs_on(assembly)
    for group in groups:
        os.killpg(group, signal.SIGTERM)
    end = time.monotonic() + STOP_LIMIT_S
    while _runs_on(assembly) and time.monotonic() < end:
        time.sleep(0.1)
    return groups


def _runs_on(assembly: Path) -> list[int]:
    listing = subprocess.run(["ps", "-axww", "-o", "pgid=,command="], capture_output=True, text=True, check=True).stdout
    lines = (line.strip().partition(" ") for line in listing.splitlines())
    return [
        int(group)
        for group, _, command in lines
        if f" {assembly} " in f"{command} " and command.startswith(("node ", f"{ROOT}/node_modules/"))
    ]
