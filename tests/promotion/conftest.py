"""A copy of this checkout whose pipeline goes from dev to prod, promoted step by step in emulated AWS accounts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.emulator import launch
from local.pipeline.prerequisites import copy_source
from tests.e2e.conftest import free_ports

ROOT = Path(__file__).resolve().parents[2]
REGION = "us-west-2"
TOOLS, DEV, PROD = "555566667777", "222233334444", "444455556666"
PORTS = 4
LIMIT_S = 900
SKIPPED = ("make lint", "make test-fast")
"""Lint and tests of the Synth step: this test is part of them."""


@dataclass(frozen=True)
class Step:
    """One call of the command: its output with the logs of what failed, the outcome of each action by STAGE/ACTION, and
    prod's stacks after it.
    """

    output: str
    outcomes: dict[str, str]
    prod: set[str]

    def stopped_at(self) -> list[str]:
        """Actions that failed or wait."""
        return [key for key, outcome in self.outcomes.items() if outcome in {"failed", "waiting"}]


@dataclass
class Promotion:
    """The copied checkout, the state folder, and each step by its name."""

    checkout: Path
    state: Path
    port: int
    steps: dict[str, Step] = field(default_factory=dict)

    def step(self, name: str, status: int, *options: str) -> None:
        """Run the command, which must end with `status`."""
        line = [sys.executable, "-m", "cli", "promote", "promotion", "--checkout", str(self.checkout)]
        line += ["--state", str(self.state), "--port", str(self.port), *options]
        line += [word for skipped in SKIPPED for word in ("--skip", skipped)]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        outcomes = json.loads((self.state / "promotion.json").read_text())["outcomes"]
        logs = [self.state / "steps" / key / "log" for key, outcome in outcomes.items() if outcome == "failed"]
        output = "\n".join([done.stdout, *(log.read_text() for log in logs if log.exists())])
        self.steps[name] = Step(output, outcomes, self.stacks(PROD))

    def client(self, service: str, account: str = TOOLS) -> Any:  # noqa: ANN401 - boto3's clients are made at run time
        """A client with the root key of an account."""
        session = boto3.Session(aws_access_key_id=account, aws_secret_access_key="local", region_name=REGION)
        endpoint = f"http://127.0.0.1:{self.port}"
        return session.client(service, endpoint_url=endpoint)  # type: ignore[call-overload]

    def stacks(self, account: str) -> set[str]:
        """The stacks of an account, without nested ones and the bootstrap's."""
        listed = self.client("cloudformation", account).describe_stacks()["Stacks"]
        return {stack["StackName"] for stack in listed if "RootId" not in stack} - {"CDKToolkit"}

    def cluster_status(self, account: str, name: str) -> str:
        """Status of the stack that ParallelCluster made."""
        stacks = self.client("cloudformation", account).describe_stacks(StackName=name)["Stacks"]
        return str(stacks[0]["StackStatus"])

    def edit(self, file: str, pattern: str, replacement: str) -> None:
        """Replace the one match in a file of the checkout."""
        path = self.checkout / file
        text, count = re.subn(pattern, replacement, path.read_text())
        assert count == 1, f"{pattern} matches {count} times"
        path.write_text(text)


@pytest.fixture(scope="session")
def promotion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Promotion]:
    """Nothing is deployed yet."""
    folder = tmp_path_factory.mktemp("promotion")
    made = Promotion(folder / "checkout", folder / "state", free_ports(PORTS))
    copy_source(ROOT, made.checkout)
    made.edit("environments/pipelines/promotion.yaml", r"\n  - environment: staging\n", "\n")
    yield made
    launch.stop(made.state)
