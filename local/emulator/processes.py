"""The processes of an emulator: start, wait for, find and end them. Standard library only."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ops.lock import open_private

CHECKOUT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
START_SECONDS = 180
STOP_SECONDS = 10
LOG_TAIL_LINES = 25
JSII = (
    "JSII_RUNTIME_PACKAGE_CACHE",
    "JSII_RUNTIME_PACKAGE_CACHE_ROOT",
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION",
)
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TRAINYARD_LAB_CACHE", "TRAINYARD_LAB_MIRROR", "TRAINYARD_LAB_NODES", *JSII)
"""The caller's variables that reach the processes: none of AWS."""


class EmulatorError(Exception):
    """The emulator cannot be started or stopped; the message is for users."""


def log_tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log."""
    if not path.exists():
        return "(no log)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def require_free(number: int) -> None:
    """Raise EmulatorError where another program listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, number))
        except OSError as error:
            raise EmulatorError(
                f"port {number} on {HOST} is in use: end the program that listens there, or choose others with "
                "--port NUMBER (make: PORT=NUMBER); an emulator takes that port and the next"
            ) from error


def aws_settings(port: int, account: str, region: str) -> dict[str, str]:
    """Variables for an account of the emulator on a port."""
    return {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def kept() -> dict[str, str]:
    """The caller's variables of `KEPT`."""
    return {key: os.environ[key] for key in KEPT if key in os.environ}


def spawn(command: list[str], log: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with its output in a log."""
    with open_private(log, "w") as stream:
        return subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env={**kept(), "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", **settings},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )


def wait(name: str, process: subprocess.Popen[bytes], url: str, log: Path, deadline: float) -> None:
    """Wait until a process answers at an address; raises EmulatorError where it ends, or at the deadline."""
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


def of(state_dir: Path) -> list[int]:
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


def end(state_dir: Path) -> None:
    """End every process of a folder and remove what they wrote, except the logs."""
    if (state_dir / "laboratories").is_dir():
        # Only there: it needs more than the standard library.
        from local.slurm import remote

        remote.end_all(state_dir)
    pids = of(state_dir)
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, wanted)
        deadline = time.monotonic() + STOP_SECONDS
        while (pids := of(state_dir)) and time.monotonic() < deadline:
            for pid in pids:
                # A child that ended stays in the process list until it is waited for.
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.1)
        if not pids:
            break
    if pids:
        raise EmulatorError(f"processes {', '.join(map(str, pids))} of {state_dir} do not end: end them by hand")
    if not (state_dir / "emulator.json").is_file():
        return  # no emulator was started here: the files are somebody else's
    for name in ("tmp", "runtime"):
        shutil.rmtree(state_dir / name, ignore_errors=True)
    for name in ("state.json", "cognito-rsa-key.pem", "cognito-rsa-key.pem.lock"):
        (state_dir / name).unlink(missing_ok=True)
