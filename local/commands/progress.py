"""Turns the events of the CDK CLI into a few lines that a person can follow."""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.markup import escape

from local.commands.cdk import parse_event

STACK = "AWS::CloudFormation::Stack"
CLUSTER = "Custom::ParallelCluster"
HEARTBEAT_S = 10.0
FINAL = ("_COMPLETE", "_FAILED")


class Progress:
    """Follows a deployment: a line where a stack starts or ends or a resource fails, and a sign of life between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._last = self._started
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
        """Say that the work goes on, where nothing was said for a while."""
        if time.monotonic() - self._last > HEARTBEAT_S:
            at_work = ", ".join(sorted(self._running)) or "the CDK app"
            self.say(f"[dim]still at work: {at_work}[/dim]")

    def say(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        self._last = time.monotonic()
        self._console.print(f"[dim]{self._last - self._started:5.0f} s[/dim]  {text}", highlight=False, soft_wrap=True)
