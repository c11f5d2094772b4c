"""Runs the commands of a buildspec one after the other, with the variables and the folder that each leaves behind."""

from __future__ import annotations

import datetime
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from local.pipeline.buildspec import Buildspec, Phase
from local.pipeline.problem import ActionFailed

TAIL_LINES = 15
# Assignments are exported, as CodeBuild has them: the next command runs in a shell of its own and finds them there.
_WRAPPER = """\
_keep() {{ _status=$?; env -0 > {env}; pwd > {cwd}; exit "$_status"; }}
trap _keep EXIT
set -a
{command}
"""


@dataclass
class Shell:
    """The shell of one build.

    Attributes:
        environment: what the next command sees.
        folder: where it starts.
    """

    program: str
    environment: dict[str, str]
    folder: Path
    scratch: Path
    log: Path
    deadline: float

    def run(self, command: str) -> int:
        """Run one command: its exit status.

        Raises:
            ActionFailed: the build's time is over.
        """
        kept_env, kept_cwd = self.scratch / "env", self.scratch / "cwd"
        for path in (kept_env, kept_cwd):
            path.unlink(missing_ok=True)
        script = _WRAPPER.format(env=shlex.quote(str(kept_env)), cwd=shlex.quote(str(kept_cwd)), command=command)
        with self.log.open("a") as stream:
            stream.write(f"\n[Container] {_now()} Running command {command}\n")
            stream.flush()
            process = subprocess.Popen(
                [self.program, "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(timeout=max(0.0, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired as late:
                raise ActionFailed("BUILD_TIMED_OUT: the project's timeout is over") from late
            finally:
                # What a command leaves running ends with it, as with the container of a build.
                _end(process)
        if kept_env.is_file() and kept_cwd.is_file():
            self.environment = _parsed(kept_env.read_bytes())
            self.folder = Path(kept_cwd.read_text().rstrip("\n"))
        return status


@dataclass(frozen=True)
class Outcome:
    """How the phases of a build ended: a reason where they failed, and the commands that were left out."""

    failure: str
    skipped: tuple[str, ...]


def run_phases(shell: Shell, spec: Buildspec, skip: tuple[str, ...]) -> Outcome:
    """Run the phases in CodeBuild's order: post_build follows a failed build, nothing follows a failed install.

    Args:
        shell: the build's shell.
        spec: its buildspec.
        skip: commands that are left out; each matches a whole command.
    """
    failure = ""
    skipped: list[str] = []
    for phase in spec.phases:
        if failure and not (phase.name == "post_build" and failure.startswith("build:")):
            break
        shell.environment["CODEBUILD_BUILD_SUCCEEDING"] = "0" if failure else "1"
        said = _phase(shell, phase, skip, skipped)
        if said and phase.on_failure == "ABORT":
            failure = failure or f"{phase.name}: {said}"
    return Outcome(failure, tuple(skipped))


def _phase(shell: Shell, phase: Phase, skip: tuple[str, ...], skipped: list[str]) -> str:
    failure = ""
    for commands, whatever in ((phase.commands, False), (phase.last, True)):
        for command in commands:
            if failure and not whatever:
                break
            if command.strip() in skip:
                skipped.append(command.strip())
                with shell.log.open("a") as stream:
                    stream.write(f"\n[Walker] Skipped, as was asked for: {command}\n")
                continue
            status = shell.run(command)
            if status:
                failure = failure or f"exit status {status} of: {_short(command)}"
    return failure


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a build's log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.is_file() else ""


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 110 else f"{line[:107]}..."


def _parsed(dump: bytes) -> dict[str, str]:
    pairs = (entry.partition(b"=") for entry in dump.split(b"\0") if entry)
    left_out = (b"_", b"_status", b"SHLVL")
    return {name.decode(): value.decode(errors="surrogateescape") for name, _, value in pairs if name not in left_out}


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        if process.poll() is None:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    except ProcessLookupError:
        pass
