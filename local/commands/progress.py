"""A few lines for people about a deployment, from the CDK CLI's events and the cluster's own stack."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape

from local.commands.cdk import parse_event

if TYPE_CHECKING:
    import boto3

STACK = "AWS::CloudFormation::Stack"
CLUSTER = "Custom::ParallelCluster"
SILENCE_S = 10.0
LOOK_S = 3.0
FINAL = ("_COMPLETE", "_FAILED")


class Progress:
    """Prints a line when a stack starts or ends or a resource fails, and one when nothing happened for a while."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = self._last = time.monotonic()
        self._running: dict[str, str] = {}
        self._lock = threading.Lock()
        self.failures: list[str] = []
        self.errors: list[str] = []
        self.changed = False

    def line(self, text: str) -> None:
        """Take one line of the CLI's output."""
        event = parse_event(text)
        with self._lock:
            if event is None:
                stripped = text.strip()
                if stripped.startswith(("❌", "Error:", "[ERROR]", "ERROR")) or "failed:" in stripped:
                    self.errors.append(stripped)
                return
            self.changed = True
            if event.type == STACK:
                self._stack(event.stack, event.status)
            elif event.status.endswith("_FAILED"):
                self.say(f"[red]{event.stack}: {event.status} {event.type} {escape(event.name)}[/red]")
                self.failures.append(f"{event.stack}: {event.type} {event.name}")
            if event.type == CLUSTER:
                self.say(f"{event.stack}: the cluster's resource is {event.status}")

    def _stack(self, stack: str, status: str) -> None:
        if status.endswith(FINAL) and "CLEANUP" not in status:
            self._running.pop(stack, None)
            colour = "green" if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE") else "red"
            self.say(f"[{colour}]{stack}: {status}[/{colour}]")
        elif self._running.get(stack) != status:
            self._running[stack] = status
            self.say(f"{stack}: {status}")

    def sign_of_life(self) -> None:
        """Print that the work continues, if nothing was printed for `SILENCE_S` seconds."""
        if time.monotonic() - self._last > SILENCE_S:
            running = ", ".join(sorted(self._running)) or "the CDK app"
            self.say(f"[dim]still running: {running}[/dim]")

    def say(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        self._last = time.monotonic()
        self._console.print(f"[dim]{self._last - self._started:5.0f} s[/dim]  {text}", highlight=False, soft_wrap=True)


class Heartbeat:
    """While entered, reports each change of the cluster's own stack, which the CDK CLI does not see."""

    def __init__(self, progress: Progress, account: boto3.Session, cluster: str) -> None:
        self._progress = progress
        self._client = account.client("cloudformation")
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._last = self._look()
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(LOOK_S):
            seen = self._look()
            if seen != self._last:
                self._last = seen
                self._progress.say(f"cluster {self._cluster}: {seen}")
            else:
                self._progress.sign_of_life()

    def _look(self) -> str:
        try:
            stack = self._client.describe_stacks(StackName=self._cluster)["Stacks"][0]
            resources = self._client.describe_stack_resources(StackName=self._cluster)["StackResources"]
        except (ClientError, BotoCoreError):
            return "absent"
        done = sum(resource["ResourceStatus"].endswith("_COMPLETE") for resource in resources)
        return f"{stack['StackStatus']}, {done} of {len(resources)} resources"
