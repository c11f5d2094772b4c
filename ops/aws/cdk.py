"""The CDK app of an environment, and the checkout's CDK CLI."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ops.lock import open_private
from ops.problem import Problem
from settings.files import ENVIRONMENTS

if TYPE_CHECKING:
    from settings import Environment

ROOT = Path(__file__).resolve().parents[2]
GUARD_INTERVAL_S = 2.0

# Linux ends the CLI when this command ends, even if it is killed. macOS's C library has no prctl.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class App:
    """An environment, its file, and a folder for the assembly and the CDK CLI's output."""

    file: Path
    environment: Environment
    state: Path

    @property
    def name(self) -> str:
        """How a user names this environment on a command line."""
        if self.file.parent == ENVIRONMENTS:
            return self.file.stem
        here = Path.cwd()
        return str(self.file.relative_to(here) if self.file.is_relative_to(here) else self.file)

    @property
    def assembly(self) -> Path:
        """What was synthesized and deployed last."""
        return self.state / "cdk.out"

    @property
    def log(self) -> Path:
        """Everything that the CDK CLI printed."""
        return self.state / "cdk.log"

    @property
    def synthesis(self) -> tuple[str, ...]:
        """Options of the CDK CLI that synthesize the app."""
        return "--context", f"env={self.file}", "--output", str(self.assembly)

    @property
    def removal(self) -> tuple[str, ...]:
        """Options of the CDK CLI for a destroy of all stacks that the environment may have.

        They do not come from `assembly` or the file: both may lack a deployed stack, and `assembly` may be another
        environment's.
        """
        of = self.environment
        name = f"removal={of.account}/{of.region}/{of.name}"
        return "--context", name, "--output", str(self.state / "removal.out")


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
