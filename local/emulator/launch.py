"""Start, find and stop an emulator from outside: in the root environment.

    emulator = launch.start(Path(".trainyard/local"), "111122223333", "us-east-1", port=4566, api_port=4567)
    subprocess.run([...cdk...], env=emulator.child_environment())
    launch.stop(Path(".trainyard/local"))

An emulator is ministack with its extension, a ParallelCluster API for each account, and one folder: state.json, logs,
and what functions unpack. What is deployed lives in memory and ends with the process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from local.control.client import PREFIX
from local.emulator import processes
from local.emulator.processes import CHECKOUT, HOST, START_SECONDS, EmulatorError
from ops.lock import open_private
from trainyard import parallelcluster

__all__ = ["HOST", "Account", "Emulator", "EmulatorError"]

WAIT_SCALE = "LOCAL_WAIT_SCALE"
DEFAULT_WAIT_SCALE = "0.2"


@dataclass(frozen=True)
class Account:
    """A further account of an emulator, with a ParallelCluster API and seeds of its own; the process is shared."""

    account: str
    region: str
    api_port: int
    seeds: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Emulator:
    """A running emulator."""

    state_dir: Path
    account: str
    region: str
    port: int
    api_port: int
    pids: tuple[int, ...]

    @property
    def endpoint(self) -> str:
        """The address of every AWS service of the emulator."""
        return f"http://{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether all of its processes still run."""
        running = processes.of(self.state_dir)
        return all(pid in running for pid in self.pids)

    def env(self) -> dict[str, str]:
        """Variables that point the AWS CLI, boto3 and the CDK CLI at this emulator.

        On top of an environment with a profile or a session token they are not enough: use child_environment.
        """
        return {
            **processes.aws_settings(self.port, self.account, self.region),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        }

    def child_environment(self) -> dict[str, str]:
        """The caller's environment for a child process, with every AWS setting of it replaced by env()."""
        return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | self.env()


def start(  # noqa: PLR0917 - account, region and ports, as callers have them
    state_dir: Path,
    account: str,
    region: str,
    port: int,
    api_port: int,
    seeds: Mapping[str, Any] | None = None,
    wait_scale: float | None = None,
    others: Sequence[Account] = (),
) -> Emulator:
    """Start an emulator for one account and region, or return the one that runs in this folder already.

    Args:
        seeds: what exists from the start, in the format of seeds.py.
        wait_scale: factor on every wait of Step Functions, from 0 to 1 (default: LOCAL_WAIT_SCALE, or 0.2).
        others: further accounts. Roles are assumed and buckets shared as between accounts of AWS.

    Raises:
        EmulatorError: a port is taken, an environment is not installed, or a process ends or does not answer within
            START_SECONDS.
    """
    running = find(state_dir)
    if running is not None:
        if (running.account, running.region) != (account, region):
            raise EmulatorError(
                f"{state_dir} holds an emulator for account {running.account} in {running.region}, not {account} in "
                f"{region}: stop it first (make down)"
            )
        return running
    processes.end(state_dir)
    apis = {"api": Account(account, region, api_port)} | {f"api-{other.account}": other for other in others}
    interpreters = {name: _interpreter(name) for name in ("local", "parallelcluster")}
    for number in (port, *(api.api_port for api in apis.values())):
        processes.require_free(number)
    folder = state_dir.resolve()
    for made in (folder, folder / "tmp"):  # for their owner only: logs have signed URLs
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    given = {
        **{"account": account, "region": region, "port": port, "api_port": api_port, "seeds": seeds or {}},
        "wait_scale": _wait_scale() if wait_scale is None else wait_scale,
        "others": [asdict(other) for other in others],
        "parallelcluster_version": parallelcluster.version(),
    }
    with open_private(folder / "emulator.json", "w") as file:
        json.dump(given, file, indent=1)
    started = {}

    def spawn(name: str, interpreter: str, module: str, of: Account, *more: str) -> None:
        line = [str(interpreters[interpreter]), "-m", module, "--state-dir", str(folder), *more]
        environment = {**processes.aws_settings(port, of.account, of.region), "TMPDIR": str(folder / "tmp")}
        if module == "local.api":
            # It acts with the role that the API's template gives to its function, not as the account.
            del environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
            address = f"http://{HOST}:{port}{PREFIX}/api-session/{of.account}"
            environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = address
        started[name] = processes.spawn(line, state_dir / f"{name}.log", environment)

    spawn("emulator", "local", "local.emulator", apis["api"])
    for name, api in apis.items():
        spawn(name, "parallelcluster", "local.api", api, str(api.api_port))
    addresses = {name: f"http://{HOST}:{api.api_port}/v3/clusters" for name, api in apis.items()}
    addresses = {"emulator": f"http://{HOST}:{port}/_ministack/health", **addresses}
    emulator = Emulator(state_dir, account, region, port, api_port, tuple(p.pid for p in started.values()))
    try:
        deadline = time.monotonic() + START_SECONDS
        for name, address in addresses.items():
            processes.wait(name, started[name], address, state_dir / f"{name}.log", deadline)
    except EmulatorError:
        stop(state_dir)
        raise
    # Last: whoever finds the file finds an emulator that answers.
    with open_private(state_dir / "state.json", "w") as file:
        json.dump({key: value for key, value in asdict(emulator).items() if key != "state_dir"}, file, indent=1)
    return emulator


def _wait_scale() -> float:
    given = os.environ.get(WAIT_SCALE, DEFAULT_WAIT_SCALE)
    try:
        scale = float(given)
    except ValueError:
        scale = -1.0
    if not 0 <= scale <= 1:
        raise EmulatorError(f"{WAIT_SCALE} is {given!r}; allowed are numbers from 0 (no waits) to 1 (as on AWS)")
    return scale


def find(state_dir: Path) -> Emulator | None:
    """The emulator that runs in a folder, or None. A state file whose processes are gone counts as none."""
    emulator = read(state_dir)
    return emulator if emulator is not None and emulator.alive else None


def read(state_dir: Path) -> Emulator | None:
    """The emulator in a folder's state file, whether it runs or not."""
    try:
        state = json.loads((state_dir / "state.json").read_text())
        return Emulator(
            state_dir, state["account"], state["region"], state["port"], state["api_port"], tuple(state["pids"])
        )
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def stop(state_dir: Path) -> None:
    """End the emulator of a folder with every function process that it left, and remove what it wrote but the logs."""
    processes.end(state_dir)


def _interpreter(folder: str) -> Path:
    path = CHECKOUT / folder / ".venv" / "bin" / "python"
    if not path.exists():
        raise EmulatorError(f"{path} is missing: run `make setup`, or `uv sync` in {folder}/")
    return path
