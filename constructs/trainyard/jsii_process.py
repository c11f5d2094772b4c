"""A faster synthesis: Python talks to jsii's Node program directly. Import this module before `aws_cdk`.

jsii starts a Node process, which starts the program in a second one and copies all 800 calls of a synthesis and their
answers. Here Python starts the program itself, imports modules while it starts, and lets it load the CDK's large
classes while Python imports more. That saves a sixth of the time (`scripts/benchmarks/synth.py`).

This replaces a private method of jsii. It does so for one version of jsii only: with another version, and where
JSII_NODE or JSII_RUNTIME is set, jsii starts its processes as usual. jsii's warning about an old Node does not appear.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

VERSION = "1.142.0"
CHANNEL = 3
"""The file descriptor at which jsii's program reads calls and writes answers."""

LARGE = (
    "aws_ec2.Vpc",
    "aws_ec2.CfnVPC",
    "aws_sns.Topic",
    "aws_lambda.Function",
    "aws_s3_deployment.BucketDeployment",
    "aws_stepfunctions.StateMachine",
    "aws_autoscaling.CfnAutoScalingGroup",
    "aws_cloudwatch.CfnAlarm",
    "aws_fsx.CfnFileSystem",
    "aws_ssm.CfnDocument",
)
"""Classes of the CDK that every environment needs, with much code behind them."""


class Answers:
    """jsii's answers, line by line, without those to the calls of `load_ahead`."""

    def __init__(self, channel: BinaryIO) -> None:
        self.channel = channel
        self.ahead = 0

    def readline(self) -> bytes:
        """Wait for the next answer that jsii's Python expects."""
        while self.ahead:
            self.channel.readline()
            self.ahead -= 1
        return self.channel.readline()

    def close(self) -> None:
        """Close the channel, as jsii does at the end."""
        self.channel.close()


class Program(subprocess.Popen[bytes]):
    """jsii's program. What it prints becomes errors of Python's: Node would make an inherited stream non-blocking."""

    def __init__(self, packages: Path) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="jsii-")
        for name in ("program.js", "runtime-index-worker.js"):
            shutil.copyfile(packages / "jsii" / "_embedded" / "jsii" / f"lib__{name}", Path(self.folder.name, name))
        own, other = socket.socketpair()
        super().__init__(
            ["node", "--max-old-space-size=4069", "--preserve-symlinks", f"{self.folder.name}/program.js"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "JSII_AGENT": f"Python/{platform.python_version()}"},
            # A preexec_fn can block a process that has threads. This one has none yet.
            preexec_fn=lambda: os.dup2(other.fileno(), CHANNEL),
            pass_fds=[CHANNEL],
        )
        other.close()
        self.socket, self.calls, self.answers = own, own.makefile("wb"), Answers(own.makefile("rb"))
        # What jsii uses of the process that it starts itself.
        self.stdin, self.stdout, self.stderr = self.calls, self.answers, self.stdout  # type: ignore[assignment]

    def copy_output(self) -> None:
        """Print what the program prints, until it ends."""
        for line in self.stderr or ():
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()

    def wait(self, timeout: float | None = None) -> int:
        """Close the program's input and wait until it ends.

        The program may still wait for the result of a callback. Without the end of its input it would not stop.
        """
        with contextlib.suppress(OSError):  # it has ended
            self.socket.shutdown(socket.SHUT_WR)
        return super().wait(timeout)


def load_ahead() -> None:
    """Let Node load the large classes, without waiting for it. Call this after the import of `aws_cdk`."""
    if program is None:
        return
    for name in LARGE:
        call = {"api": "sinvoke", "fqn": f"aws-cdk-lib.{name}", "method": "isConstruct", "args": ["no construct"]}
        program.calls.write(json.dumps(call).encode() + b"\n")
        program.answers.ahead += 1
    program.calls.flush()


def _start() -> Program | None:
    spec = find_spec("jsii")
    if spec is None or spec.origin is None or {"JSII_NODE", "JSII_RUNTIME"} & os.environ.keys():
        return None
    packages = Path(spec.origin).parents[1]
    if not Path(packages, f"jsii-{VERSION}.dist-info").is_dir() or not shutil.which("node"):
        return None
    started = Program(packages)
    from jsii._kernel.providers import process  # while Node starts

    def start(self: Any) -> None:  # noqa: ANN401 - jsii's class is private
        self._ctx_stack.enter_context(started.folder)
        self._process = started
        self.sink_thread = threading.Thread(target=started.copy_output, daemon=True)
        self.sink_thread.start()
        atexit.register(self.stop)
        self.handshake()

    process._NodeProcess.start = start  # type: ignore[method-assign]
    return started


program = _start()
"""The program that runs for this process; None where jsii starts its own."""
