"""Runs the CDK CLI against the emulator, without the user's AWS settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from local.commands.session import exit_reason
from local.emulator import processes
from ops.aws import cdk

if TYPE_CHECKING:
    from local.emulator.launch import Emulator

KEPT = (*processes.KEPT, "TERM", "TMPDIR", "CDK_HOME", "CDK_VALIDATION")
"""The user's variables that reach the CDK CLI: none of AWS."""

TIME_LIMIT_S = 45 * 60
"""A custom resource that never answers would otherwise hold the CLI for an hour."""


def environment_for(emulator_env: Mapping[str, str]) -> dict[str, str]:
    """The CLI's whole environment: the emulator's variables, and those of `KEPT`."""
    return {**{key: os.environ[key] for key in KEPT if key in os.environ}, **emulator_env}


def run(emulator: Emulator, *arguments: str, log: Path) -> int:
    """Run the CLI with its output at the end of `log`; returns its exit status.

    Raises:
        Problem: the emulator exited or the time limit passed, and the CLI was stopped; without that, it would retry
            requests for minutes.
    """
    end = time.monotonic() + TIME_LIMIT_S

    def guard() -> str:
        if not emulator.alive:
            return exit_reason(emulator)
        return f"it took more than {TIME_LIMIT_S / 60:.0f} minutes." if time.monotonic() > end else ""

    return cdk.run(*arguments, env=environment_for(emulator.env()), log=log, guard=guard)
