"""One environment and the world that it is deployed to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from local.emulator import launch
from ops.problem import Problem
from settings import Environment, environment_file, load

if TYPE_CHECKING:
    from local.emulator.launch import Emulator

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_PORT = 4600
"""First of the two loopback ports of the local world: AWS, and the one after it for the ParallelCluster API."""

RAISED = ("ec2/L-1216C47A", "ec2/L-DB2E81BA", "ec2/L-417A185B", "ec2/L-3819A6DF", "ec2/L-7212CCBC", "ec2/L-C4BD4855")
"""Quotas on vCPUs that a GPU account has asked AWS to raise: Standard, G and P, on demand and on spot. AWS's defaults
hold no GPU at all.
"""

RAISED_TO = 20000
"""vCPUs: 104 instances of P5, more than any environment here has."""


def state_folder(file: Path, given: Path | None) -> Path:
    """Where the world of an environment file keeps its state: by the file's name, so that its content may be edited."""
    return (given or ROOT / ".trainyard" / file.stem).resolve()


def file_of(name: str) -> Path:
    """The environment file that a user means."""
    try:
        return environment_file(name).resolve()
    except ValueError as unknown:
        raise Problem(str(unknown)) from unknown


@dataclass(frozen=True)
class Session:
    """An environment, its file and the folder where the state of its world is kept."""

    file: Path
    environment: Environment
    state: Path

    @classmethod
    def open(cls, name: str, state: Path | None) -> Session:
        """Read the environment file; wrong input raises settings.Faults."""
        file = file_of(name)
        environment = load(file)
        if environment.network.existing:
            raise Problem(
                f"{file.name} names an existing VPC ({environment.network.existing.vpc_id}), "
                "which the emulated AWS does not have.\n"
                "Leave network.existing out to try the environment here, or deploy it to AWS with `cdk deploy`."
            )
        return cls(file, environment, state_folder(file, state))

    @property
    def context(self) -> str:
        """The value of the CDK context key `env` for this file."""
        return str(self.file)

    def world(self) -> Emulator | None:
        """The running world, or none.

        Raises:
            Problem: it runs for another account or region than the file names now.
        """
        world = launch.find(self.state)
        wanted = (self.environment.account, self.environment.region)
        if world is not None and (world.account, world.region) != wanted:
            raise Problem(
                f"The emulated AWS of {self.file.name} runs for account {world.account} in {world.region}; "
                f"the file says {wanted[0]} in {wanted[1]}.\nStop it first: make down ENV={self.file.stem} FORCE=yes"
            )
        return world

    def require_world(self) -> Emulator:
        """The running world, or a message that says how to start it."""
        world = self.world()
        if world is None:
            raise Problem(f"Nothing is up for {self.environment.name!r}. Start it with: make up ENV={self.file.stem}")
        return world

    def seeds(self) -> Mapping[str, object]:
        """What an AWS account holds before Trainyard comes: the reservations that the environment names, and quotas
        that were raised for its instances.
        """
        return {
            "quotas": [{"quota": quota, "value": RAISED_TO} for quota in RAISED],
            "capacity_reservations": [
                {
                    "id": queue.capacity.reservation,
                    "instance_type": compute.instance_types[0],
                    "zone_id": self.environment.network.zone,
                    "count": compute.max,
                    "type": "capacity-block" if queue.capacity.type == "capacity-block" else "on-demand",
                }
                for queue in self.environment.cluster.queues
                if queue.capacity.reservation
                for compute in queue.compute[:1]
            ],
        }

    @cached_property
    def outputs_file(self) -> Path:
        """Where the CDK CLI writes the outputs of the stacks."""
        return self.state / "outputs.json"

    def outputs(self) -> dict[str, dict[str, str]]:
        """Outputs by stack name, as the last deployment wrote them."""
        if not self.outputs_file.is_file():
            return {}
        found: dict[str, dict[str, str]] = json.loads(self.outputs_file.read_text())
        return found


def forget_users_aws() -> None:
    """Take the user's AWS settings out of this process: no profile, no key and no endpoint of theirs is ever read."""
    for key in [key for key in os.environ if key.startswith("AWS_")]:
        del os.environ[key]
    os.environ.update(
        AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull, AWS_EC2_METADATA_DISABLED="true"
    )


def aws(world: Emulator) -> boto3.Session:
    """A boto3 session that reaches the world and nothing else."""
    environment = world.env()
    os.environ.update({key: value for key, value in environment.items() if key.startswith("AWS_")})
    return boto3.Session(region_name=environment["AWS_REGION"])
