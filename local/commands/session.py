"""One environment and the emulator that it is deployed to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.exceptions import ConnectionError as Unreachable
from botocore.exceptions import HTTPClientError
from rich.console import Console

from local.control import Control
from local.emulator import launch
from local.emulator.launch import Emulator
from local.slurm import remote
from ops import lock
from ops.aws.cdk import App
from ops.problem import Problem
from settings import environment_file, load
from settings.model.network import ExistingNetwork
from trainyard.addresses import split

ROOT = Path(__file__).resolve().parents[2]
STATES = ROOT / ".trainyard"
RECORD, COPY, SCRIPTS = "environment.json", "environment.yaml", "environment-scripts"
"""In a state folder: the environment's identity; a copy of its file; its hook scripts and people file."""
DEFAULT_PORT = 4600
"""First of the two loopback ports of the emulator: AWS, and the next one for the ParallelCluster API."""

RAISED_TO = 20000
"""vCPUs: 104 instances of P5, more than any environment here has."""
_RAISED = ("ec2/L-1216C47A", "ec2/L-DB2E81BA", "ec2/L-417A185B", "ec2/L-3819A6DF", "ec2/L-7212CCBC", "ec2/L-C4BD4855")
"""Quotas on vCPUs (Standard, G and P, on demand and spot) that a GPU account has raised."""


@dataclass(frozen=True)
class Deployed:
    """What runs for a state folder: name, account and region of the environment, and the file that described it."""

    identity: str
    file: Path
    state: Path

    @classmethod
    def read(cls, state: Path) -> Deployed | None:
        """The record of a folder whose emulator runs, or None."""
        try:
            record = json.loads((state / RECORD).read_text("utf-8"))
            found = cls(record["identity"], Path(record["file"]), state)
        except (OSError, ValueError, KeyError):
            return None
        return found if launch.find(state) else None

    @classmethod
    def from_file(cls, file: Path) -> Deployed | None:
        """The record of a default folder that was deployed from `file`, whatever the file says now, or None."""
        records = (cls.read(path.parent) for path in sorted(STATES.glob(f"*/{RECORD}")))
        return next((record for record in records if record and record.file == file), None)


@dataclass(frozen=True)
class Session(App):
    """An environment and its emulator, which has its state in the same folder."""

    @classmethod
    def open(cls, name: str, state: Path | None) -> Session:
        """Read the environment.

        Raises:
            Problem: no environment has this name.
            Faults: the file has faults.
        """
        require_setup()
        file = environment_file(name).resolve()
        environment = load(file)
        return cls(file, environment, (state or STATES / environment.name).resolve())

    @property
    def identity(self) -> str:
        """What makes the environment another one if it changes."""
        return f"{self.environment.name} in {self.environment.account}, {self.environment.region}"

    @property
    def deployed(self) -> Deployed | None:
        """What runs in the state folder, or what was deployed from this file under another name."""
        by_default = self.state.parent == STATES.resolve()
        return Deployed.read(self.state) or (Deployed.from_file(self.file) if by_default else None)

    def as_deployed(self) -> Session:
        """The session of what was deployed from this file, where the file describes another environment now.

        Raises:
            Problem: the folder holds the environment of another file.
        """
        deployed = self.deployed
        if deployed is None or deployed.identity == self.identity:
            return self
        if deployed.file != self.file:
            raise self._other(deployed)
        return Session(self.file, load(deployed.state / COPY, scripts=deployed.state / SCRIPTS), deployed.state)

    def _other(self, deployed: Deployed) -> Problem:
        if deployed.file != self.file:
            return Problem(
                f"{deployed.state} holds the environment {deployed.identity}, deployed from {deployed.file}; "
                f"{self.file} describes {self.identity}. Nothing was changed.\n"
                "Give the file of the deployed environment, or another folder with --state."
            )
        return Problem(
            f"{self.file.name} was deployed as {deployed.identity}, and describes {self.identity} now: another "
            "environment. The deployed one would stay as it is, with its cluster and its data. Nothing was changed.\n"
            "To keep it, put the former values back, and describe the new one in a file of its own. "
            f"To replace it, remove it first: trainyard down {self.name}"
        )

    def emulator(self) -> Emulator | None:
        """The running emulator, or None.

        Raises:
            Problem: the file described another environment when it was deployed.
        """
        deployed = self.deployed
        if deployed is not None and deployed.identity != self.identity:
            raise self._other(deployed)
        return launch.find(self.state)

    def require_emulator(self) -> Emulator:
        """The running emulator.

        Raises:
            Problem: none runs; the message says how to start it.
        """
        emulator = self.emulator()
        if emulator is None:
            raise Problem(f"Nothing is up for {self.environment.name!r}. Start it with: trainyard up {self.name}")
        return emulator

    def start(self, port: int | None, console: Console) -> Emulator:
        """The running emulator, or a new one, with the reservations and quotas of `seeds`."""
        environment = self.environment
        emulator = self.emulator()
        self._remember()
        if emulator is None:
            first = port or DEFAULT_PORT
            ports = f"{first} and {first + 1}"
            console.print(f"Starting the emulated AWS for [bold]{environment.name}[/] on 127.0.0.1, ports {ports}")
            return launch.start(
                self.state,
                account=environment.account,
                region=environment.region,
                port=first,
                api_port=first + 1,
                seeds=self.seeds(),
            )
        ports = f"{emulator.port} and {emulator.api_port}"
        if port and port != emulator.port:
            raise Problem(
                f"The emulated AWS of {self.file.name} runs on ports {ports}, not {port}.\n"
                f"Leave the port out, or stop it first: trainyard down {self.name}"
            )
        console.print(f"The emulated AWS for [bold]{environment.name}[/] is running already, on ports {ports}")
        Control(emulator).seeds(self.seeds())
        return emulator

    def ensure(self, port: int | None, console: Console) -> Emulator:
        """As `start`, for a command without the lock: holds it while the emulator starts."""
        with nullcontext() if self.emulator() else lock.hold(self.state):
            return self.start(port, console)

    def _remember(self) -> None:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        remote.remember(self.state, self.environment, self.file)
        with lock.open_private(self.state / RECORD, "w") as record:
            json.dump({"identity": self.identity, "file": str(self.file)}, record)
        with lock.open_private(self.state / COPY, "w") as copy:
            copy.write(self.file.read_text("utf-8"))
        shutil.rmtree(self.state / SCRIPTS, ignore_errors=True)
        for hook in self.environment.cluster.hooks:
            script = self.state / SCRIPTS / hook.script
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_bytes(hook.content or b"")
        if people := self.environment.people.file:
            copied = self.state / SCRIPTS / people
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes((self.file.parent / people).read_bytes())

    def seeds(self) -> Mapping[str, object]:
        """What the account holds before the deployment: what the file names by id or ARN, and raised quotas."""
        cluster, network = self.environment.cluster, self.environment.network
        accounting, boundary, existing = cluster.slurm.database, cluster.permissions_boundary, network.existing
        return {
            "policies": [boundary] if boundary else [],
            "secrets": [part.password_secret_arn for part in (accounting, self.environment.people.directory) if part],
            "networks": [_network(existing, network.zone)] if existing else [],
            "quotas": [{"quota": quota, "value": RAISED_TO} for quota in _RAISED],
            "capacity_reservations": [
                {
                    "id": queue.capacity.reservation,
                    "instance_type": compute.instance_types[0],
                    "zone_id": network.zone,
                    "count": compute.max,
                    "type": "capacity-block" if queue.capacity.type == "capacity-block" else "on-demand",
                }
                for queue in cluster.queues
                if queue.capacity.reservation
                for compute in queue.compute[:1]
            ],
        }


def _network(existing: ExistingNetwork, zone: str) -> Mapping[str, object]:
    ids = (existing.private_subnet_id, existing.public_subnet_id)
    subnets = {name: block for name, block in zip(ids, split(existing.vpc_cidr), strict=True) if name}
    return {"vpc_id": existing.vpc_id, "cidr": existing.vpc_cidr, "zone_id": zone, "subnets": subnets}


@contextmanager
def open_session(name: str, state: Path | None) -> Iterator[Session]:
    """A session that sees none of the user's AWS settings.

    Raises:
        Problem: see `Session.open`; or the emulator exited during the command.
    """
    forget_users_aws()
    session = Session.open(name, state)
    with explain_exit(session.state):
        yield session


@contextmanager
def reach_emulator(name: str, state: Path | None, port: int | None, *, start: bool) -> Iterator[None]:
    """Point boto3 and child processes at an environment's emulator; start it if `start` and none runs.

    Raises:
        Problem: none runs and `start` is False; see also `open_session`.
    """
    with open_session(name, state) as session:
        console = Console(stderr=True, highlight=False)
        emulator = session.ensure(port, console) if start else session.require_emulator()
        os.environ.update(emulator.env())
        yield


def require_setup() -> None:
    """Check that this is a checkout with the emulator's own environments.

    Raises:
        Problem: one is missing.
    """
    for part in ("local/.venv", "local/node_modules", "node_modules", "parallelcluster/.venv"):
        if not (ROOT / part).exists():
            raise Problem(
                f"The emulated AWS needs {part}, which is not under {ROOT}: run this command in a checkout of the "
                "repository after `make setup`."
            )


def forget_users_aws() -> None:
    """Remove the user's AWS settings from this process: profile, keys and endpoints; no proxy for loopback."""
    for key in [key for key in os.environ if key.startswith("AWS_")]:
        del os.environ[key]
    os.environ.update(
        AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull, AWS_EC2_METADATA_DISABLED="true"
    )
    for key in ("NO_PROXY", "no_proxy"):
        os.environ[key] = ",".join(filter(None, [os.environ.get(key), launch.HOST, "localhost"]))


def aws(emulator: Emulator) -> boto3.Session:
    """A boto3 session that reaches the emulator and nothing else."""
    environment = emulator.env()
    os.environ.update({key: value for key, value in environment.items() if key.startswith("AWS_")})
    return boto3.Session(region_name=environment["AWS_REGION"])


def exit_reason(emulator: Emulator) -> str:
    """What happened to an emulator that exited and what to do, as the end of a sentence."""
    return (
        "the emulated AWS exited in the middle, and everything in it is lost.\n"
        "Run `trainyard up` again: it starts a new one. Its last messages are in emulator.log and api.log "
        f"under {emulator.state_dir}."
    )


@contextmanager
def explain_exit(state: Path) -> Iterator[None]:
    """Turn an unanswered request into a Problem if the emulator exited; otherwise the error is passed on."""
    try:
        yield
    except (Unreachable, HTTPClientError) as error:
        emulator = launch.read(state)
        if emulator is None or emulator.alive:
            raise
        raise Problem(f"The command was stopped: {exit_reason(emulator)}") from error
