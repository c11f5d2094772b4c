"""A repository of its own, walked from dev to prod in a world of its own, with what stood there after each step."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.emulator import launch
from local.pipeline.source import WORKING_TREE, Source

ROOT = Path(__file__).resolve().parents[2]
REGION = "us-west-2"
TOOLS, DEV, STAGING, PROD = "555566667777", "222233334444", "333344445555", "444455556666"
PORTS = 5
LIMIT_S = 900
# Lint and tests are what this test is part of.
SKIPPED = ("make lint", "make test-fast")


@dataclass(frozen=True)
class Step:
    """One call of the walker: what it said, and what stood afterwards.

    Attributes:
        outcomes: of each action, by STAGE/ACTION.
        prod: names of the stacks in prod's account.
    """

    said: str
    outcomes: dict[str, str]
    record: dict[str, Any]
    prod: set[str]


@dataclass
class Promotion:
    """A checkout and the world in which its pipeline is walked."""

    checkout: Path
    state: Path
    port: int
    steps: dict[str, Step] = field(default_factory=dict)

    def step(self, name: str, status: int, command: str, *options: str) -> Step:
        """Call the walker, which must end with `status`, and remember under `name` what came of it."""
        line = [sys.executable, "-m", "local.pipeline", command, "promotion"]
        line += ["--checkout", str(self.checkout), "--state", str(self.state), *options]
        line += [word for skipped in SKIPPED for word in ("--skip", skipped)]
        done = subprocess.run(
            line,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "220"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == status, done.stdout
        record = json.loads((self.state / "walk.json").read_text())
        outcomes = {key: entry["status"] for key, entry in record["entries"].items()}
        self.steps[name] = Step(done.stdout, outcomes, record, self.stacks(PROD))
        return self.steps[name]

    def client(self, service: str, account: str = TOOLS) -> Any:  # noqa: ANN401 - boto3's clients are made at run time
        """A client of the world, with an account's own key."""
        session = boto3.Session(aws_access_key_id=account, aws_secret_access_key="local", region_name=REGION)
        endpoint = f"http://127.0.0.1:{self.port}"
        return session.client(service, endpoint_url=endpoint)  # type: ignore[call-overload]

    def stacks(self, account: str) -> set[str]:
        """The stacks that an account has, but for the one of the bootstrap."""
        listed = self.client("cloudformation", account).describe_stacks()["Stacks"]
        return {stack["StackName"] for stack in listed if "RootId" not in stack} - {"CDKToolkit"}

    def cluster(self, account: str, name: str) -> dict[str, Any]:
        """The stack of a cluster's own."""
        found: dict[str, Any] = self.client("cloudformation", account).describe_stacks(StackName=name)["Stacks"][0]
        return found

    def approve(self, stage: str, action: str) -> None:
        """Approve as a person does, by CodePipeline's API."""
        client = self.client("codepipeline")
        state = client.get_pipeline_state(name="trainyard")
        for found in state["stageStates"]:
            for item in found["actionStates"]:
                if (found["stageName"], item["actionName"]) == (stage, action):
                    client.put_approval_result(
                        pipelineName="trainyard",
                        stageName=stage,
                        actionName=action,
                        token=item["latestExecution"]["token"],
                        result={"summary": "Reviewed", "status": "Approved"},
                    )

    def edit(self, file: str, pattern: str, replacement: str) -> None:
        """Replace the one match in a file, and commit."""
        path = self.checkout / file
        text, count = re.subn(pattern, replacement, path.read_text())
        assert count == 1, f"{pattern} matches {count} times"
        path.write_text(text)
        commit(self.checkout, f"Edit {file}")

    def artifact(self, step: str, action: str) -> Path:
        """The folder of what an action, STAGE/ACTION, made in the execution that a step was about."""
        stages = self.client("codepipeline").get_pipeline(name="trainyard")["pipeline"]["stages"]
        names: dict[str, str] = {
            f"{stage['name']}/{found['name']}": found["outputArtifacts"][0]["name"]
            for stage in stages
            for found in stage["actions"]
            if found.get("outputArtifacts")
        }
        return self.state / "artifacts" / str(self.steps[step].record["execution"]) / names[action]


def commit(checkout: Path, message: str) -> None:
    """Commit everything."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for command in (["add", "-A"], ["commit", "-q", "-m", message]):
        subprocess.run(["git", "-C", str(checkout), *identity, *command], check=True)


def free_ports() -> int:
    """First of as many neighbouring free ports as a world of four accounts takes."""
    for _ in range(50):
        # Below those that the kernel hands out: the world takes its ports half a minute later.
        first = random.randrange(20000, 30000)  # noqa: S311
        sockets = [socket.socket() for _ in range(PORTS)]
        try:
            for number, found in enumerate(sockets):
                found.bind(("127.0.0.1", first + number))
        except OSError:
            continue
        finally:
            for found in sockets:
                found.close()
        return first
    raise RuntimeError(f"no {PORTS} neighbouring free ports on loopback")


@pytest.fixture(scope="session")
def promotion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Promotion]:
    """The working tree, committed to a repository of its own."""
    folder = tmp_path_factory.mktemp("promotion")
    checkout = folder / "checkout"
    Source(ROOT, WORKING_TREE).unpack(checkout)
    subprocess.run(["git", "-C", str(checkout), "init", "-q", "-b", "main"], check=True)
    commit(checkout, "As it is")
    made = Promotion(checkout, folder / "state", free_ports())
    yield made
    launch.stop(made.state)
