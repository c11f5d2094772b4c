"""The command with an emulator and an environment file, as a user runs it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import main
from local.control import Control
from local.emulator import launch
from ops import pcluster_subprocess
from ops.preflight import context
from ops.review.stacks import Stack
from ops.review.synthesis import synthesize
from tests.e2e.conftest import client_of

ROOT = Path(__file__).parents[3]


check = pcluster_subprocess.check
images_once = functools.cache(pcluster_subprocess.images)


@functools.cache
def _checked(name: str, text: str) -> dict[str, Any]:
    return check(name, json.loads(text))


@functools.cache
def _synthesized(checkout: Path, environment: Path, _text: str) -> dict[str, Stack]:
    with tempfile.TemporaryDirectory() as folder:
        return synthesize(checkout, environment, Path(folder))


def check_once(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The validators' answer, which takes 11 s of CPU time, once for each configuration."""
    return _checked(name, json.dumps(wanted))


def synthesize_once(checkout: Path, environment: Path, _output: Path) -> dict[str, Stack]:
    """The templates, which take 8 s of CPU time, once for each content of the file."""
    return _synthesized(checkout, environment, environment.read_text("utf-8"))


@dataclass
class Answer:
    """Exit status and results of one run."""

    status: int
    results: list[dict[str, str]]

    def of(self, *verdicts: str) -> list[str]:
        """Group and subject of the results with these verdicts."""
        return [f"{result['check']}: {result['subject']}" for result in self.results if result["verdict"] in verdicts]


@dataclass
class Emulated:
    """An emulator with one environment file."""

    emulator: launch.Emulator
    file: Path

    def seed(self, **seeds: Any) -> None:  # noqa: ANN401 - seeds.py
        """Add to what the account contains."""
        Control(self.emulator).seeds(seeds)

    def quotas(self, values: dict[str, float]) -> None:
        self.seed(quotas=[{"quota": quota, "value": value} for quota, value in values.items()])

    def ask(self, **environment: str) -> Answer:
        """Run the command in this process."""
        report = self.emulator.state_dir / "report.json"
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            for name, value in {**self.emulator.env(), **environment}.items():
                patch.setenv(name, value)
            patch.setattr(pcluster_subprocess, "check", check_once)
            patch.setattr(pcluster_subprocess, "images", images_once)
            patch.setattr(context, "synthesize", synthesize_once)
            status = main(["preflight", str(self.file), "--on", "aws", "--format", "json", "--output", str(report)])
        assert status in (0, 1)
        return Answer(status, json.loads(report.read_text())["lines"])

    def ask_with(self, text: str) -> Answer:
        """Run the command with another content of the file."""
        before = self.file.read_text("utf-8")
        self.file.write_text(text, "utf-8")
        try:
            return self.ask()
        finally:
            self.file.write_text(before, "utf-8")

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli", "preflight", str(self.file), "--on", "aws", *options],
            cwd=ROOT,
            env={**self.emulator.child_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3's
        """A client with the account's own key."""
        return client_of(self.emulator, service)

    def user(self, *actions: str) -> dict[str, str]:
        """The keys of a user with these permissions only, as variables."""
        iam = self.client("iam")
        name = f"user-{len(iam.list_users()['Users'])}"
        iam.create_user(UserName=name)
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName="preflight", PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
