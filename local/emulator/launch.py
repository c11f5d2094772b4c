"""Start, find and stop an emulator from outside: standard library and boto3 only, for the root environment.

    emulator = launch.start(Path(".trainyard/local"), "111122223333", "us-east-1", port=4566, api_port=4567)
    subprocess.run([...cdk...], env=emulator.child_environment())
    launch.stop(Path(".trainyard/local"))

An emulator is two processes, ministack with its extension and the ParallelCluster API, and one folder: state.json, two
logs, and what functions unpack. Its contents live in memory and end with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
START_SECONDS = 90
STOP_SECONDS = 10
LOG_TAIL_LINES = 25
WAIT_SCALE = "LOCAL_WAIT_SCALE"
DEFAULT_WAIT_SCALE = "0.2"


class EmulatorError(Exception):
    """The emulator cannot be started or stopped; the message is for people."""


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
        """Whether both of its processes still run."""
        running = _processes_of(self.state_dir)
        return all(pid in running for pid in self.pids)

    def env(self) -> dict[str, str]:
        """Variables that point the AWS CLI, boto3 and the CDK CLI at this emulator.

        On top of an environment with a profile or a session token they are not enough: use child_environment.
        """
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        }

    def child_environment(self) -> dict[str, str]:
        """The caller's environment for a child process, with every AWS setting of it replaced by env()."""
        return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | self.env()


def start(  # noqa: PLR0917 - what an emulator is, in the order in which one says it
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

    `others` are further accounts of it, between which roles are assumed and buckets shared as between accounts of AWS.

    `seeds` is what exists from the start, in the format of seeds.py. `wait_scale` is the factor on every wait of Step
    Functions (default: LOCAL_WAIT_SCALE, or 0.2): what polls in AWS every 15 s would wait here for nothing. Raises
    EmulatorError when a port is taken, an environment is not installed, or a process ends or does not answer
    within START_SECONDS.
    """
    running = find(state_dir)
    if running is not None:
        if (running.account, running.region) != (account, region):
            raise EmulatorError(
                f"{state_dir} holds an emulator for account {running.account} in {running.region}, not {account} in "
                f"{region}: stop it first (make down)"
            )
        return running
    _clean(state_dir)
    interpreters = {name: _interpreter(name) for name in ("local", "parallelcluster")}
    for number in (port, api_port, *(other.api_port for other in others)):
        _require_free(number)
    state_dir.mkdir(parents=True, exist_ok=True)
    seeds_file = state_dir / "seeds.json"
    seeds_file.write_text(json.dumps(seeds or {}, indent=1))
    others_file = state_dir / "others.json"
    others_file.write_text(json.dumps([asdict(other) for other in others], indent=1))
    common = ["--account", account, "--region", region, "--state-dir", str(state_dir.resolve())]
    commands = {
        "emulator": [
            str(interpreters["local"]),
            "-m",
            "local.emulator",
            *common,
            "--port",
            str(port),
            "--api-port",
            str(api_port),
            "--parallelcluster-version",
            parallelcluster_version(),
            "--seeds",
            str(seeds_file.resolve()),
            "--wait-scale",
            str(_wait_scale() if wait_scale is None else wait_scale),
            "--others",
            str(others_file.resolve()),
        ],
    }
    apis = {"api": Account(account, region, api_port)} | {f"api-{other.account}": other for other in others}
    for name, api in apis.items():
        commands[name] = [
            str(interpreters["parallelcluster"]),
            "-m",
            "local.api",
            *("--account", api.account, "--region", api.region, "--state-dir", str(state_dir.resolve())),
            *("--port", str(api.api_port), "--endpoint", f"http://{HOST}:{port}"),
        ]
    processes = {name: _spawn(command, state_dir / f"{name}.log") for name, command in commands.items()}
    emulator = Emulator(state_dir, account, region, port, api_port, tuple(p.pid for p in processes.values()))
    _write(emulator)
    try:
        deadline = time.monotonic() + START_SECONDS
        served = [
            ("emulator", port, "/_ministack/health"),
            *((n, api.api_port, "/v3/clusters") for n, api in apis.items()),
        ]
        for name, number, path in served:
            _wait(name, processes[name], f"http://{HOST}:{number}{path}", state_dir / f"{name}.log", deadline)
    except EmulatorError:
        stop(state_dir)
        raise
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
    """The emulator that a folder's state file tells of, whether it runs or not."""
    try:
        state = json.loads((state_dir / "state.json").read_text())
        return Emulator(
            state_dir, state["account"], state["region"], state["port"], state["api_port"], tuple(state["pids"])
        )
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        return None


def stop(state_dir: Path) -> None:
    """End the emulator of a folder with every function process that it left, and remove what it wrote but the logs."""
    _clean(state_dir)


def parallelcluster_version() -> str:
    """The version that parallelcluster/pyproject.toml pins."""
    project = tomllib.loads((CHECKOUT / "parallelcluster" / "pyproject.toml").read_text())["project"]
    for dependency in project["dependencies"]:
        name, _, version = dependency.partition("==")
        if name == "aws-parallelcluster":
            return str(version)
    raise EmulatorError("parallelcluster/pyproject.toml does not pin aws-parallelcluster with ==")


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log."""
    if not path.exists():
        return "(no log)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _interpreter(folder: str) -> Path:
    path = CHECKOUT / folder / ".venv" / "bin" / "python"
    if not path.exists():
        raise EmulatorError(f"{path} is missing: run `make setup`, or `uv sync` in {folder}/")
    return path


def _require_free(number: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, number))
        except OSError as error:
            raise EmulatorError(
                f"port {number} on {HOST} is in use: end the program that listens there, or choose others with "
                "PORT=<number> (an emulator takes that port and the next)"
            ) from error


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "LC_ALL") if key in os.environ}
    with log.open("wb") as stream:
        return subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=kept | {"PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(name: str, process: subprocess.Popen[bytes], url: str, log: Path, deadline: float) -> None:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise EmulatorError(f"{name} ended with {process.returncode}. The end of {log}:\n{log_tail(log)}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - loopback
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise EmulatorError(f"{name} did not answer at {url} within {START_SECONDS} s. The end of {log}:\n{log_tail(log)}")


def _write(emulator: Emulator) -> None:
    state = {key: value for key, value in asdict(emulator).items() if key != "state_dir"}
    (emulator.state_dir / "state.json").write_text(json.dumps(state, indent=1))


def _processes_of(state_dir: Path) -> list[int]:
    """The processes whose command line names this folder: the emulator, the API, and functions unpacked below it."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True).stdout
    marker = str(state_dir.resolve())
    unpacked = str(state_dir.resolve() / "tmp" / "_")[:-1]
    found = []
    for line in listing.splitlines():
        number, _, command = line.strip().partition(" ")
        ours = unpacked in command or f"--state-dir {marker} " in f"{command} "
        # The program itself must be one that an emulator starts: an editor with a file of this folder open is not.
        program = Path(command.split(" ")[0]).name.lower()
        if ours and int(number) != os.getpid() and program.startswith(("python", "node")):
            found.append(int(number))
    return found


def _clean(state_dir: Path) -> None:
    if (state_dir / "laboratories").is_dir():
        # Only there: it needs more than the standard library.
        from local.slurm import remote

        remote.end_all(state_dir)
    pids = _processes_of(state_dir)
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, wanted)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + STOP_SECONDS
        while (pids := _processes_of(state_dir)) and time.monotonic() < deadline:
            _reap(pids)
            time.sleep(0.1)
        if not pids:
            break
    if pids:
        raise EmulatorError(f"processes {', '.join(map(str, pids))} of {state_dir} do not end: end them by hand")
    for name in ("tmp", "runtime"):
        shutil.rmtree(state_dir / name, ignore_errors=True)
    (state_dir / "state.json").unlink(missing_ok=True)


def _reap(pids: list[int]) -> None:
    # A child that ended stays in the process list until it is waited for.
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
