"""A world, an environment file, and the command on them as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from local.emulator import launch
from local.steering import Steer

ROOT = Path(__file__).parents[3]


@dataclass
class Asked:
    """What one run came to: its exit status and its lines."""

    status: int
    lines: list[dict[str, str]]

    def of(self, *verdicts: str) -> list[str]:
        """What the lines with such a verdict are about."""
        return [f"{line['check']}: {line['subject']}" for line in self.lines if line["verdict"] in verdicts]


@dataclass
class Trial:
    """A world with one environment file."""

    world: launch.Emulator
    file: Path

    def seed(self, **seeds: Any) -> None:  # noqa: ANN401 - seeds.py
        """Put seeds into the account."""
        Steer(self.world).seeds(seeds)

    def ask(self, **environment: str) -> Asked:
        """Run the command as a user does."""
        result = self.run("--format", "json", **environment)
        assert result.returncode in (0, 1), result.stderr
        return Asked(result.returncode, json.loads(result.stdout)["lines"])

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command with any options."""
        return subprocess.run(
            [sys.executable, "-m", "cli", "preflight", str(self.file), "--on", "aws", *options],
            cwd=ROOT,
            env={**self.world.child_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3's
        """A client with the account's own key."""
        untyped: Any = boto3.Session(
            aws_access_key_id=self.world.account, aws_secret_access_key="local", region_name=self.world.region
        )
        return untyped.client(service, endpoint_url=self.world.endpoint)


def user(trial: Trial, actions: list[str]) -> dict[str, str]:
    """The keys of a user that may do no more than some actions, as variables."""
    iam = trial.client("iam")
    name = f"user-{len(iam.list_users()['Users'])}"
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="preflight", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
