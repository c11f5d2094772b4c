"""A few lines for people about a deployment: the statuses of the environment's stacks and of the cluster's own."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.markup import escape

from ops.aws.stacks import Operations, failure_reasons, operations, resources_of, stacks_of

if TYPE_CHECKING:
    import boto3

    from settings import Environment

SILENCE_S = 10.0
POLL_S = 2.0


class Progress:
    """While entered, prints each change of a stack, and a line when nothing has changed for a while."""

    def __init__(self, console: Console, account: boto3.Session, environment: Environment) -> None:
        self._console, self._account, self._environment = console, account, environment
        self._started = self._last = time.monotonic()
        self._seen: dict[str, tuple[Any, ...]] = {}
        self._before: Operations = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.changed = False

    def __enter__(self) -> Progress:
        self._seen = self._statuses()
        with contextlib.suppress(ClientError, BotoCoreError):
            self._before = operations(self._account, self._environment)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._report()

    def failures(self) -> list[str]:
        """The failures since this was entered; see `failure_reasons`."""
        return failure_reasons(self._account, self._environment, self._before)

    def _watch(self) -> None:
        while not self._stop.wait(POLL_S):
            self._report()
            if time.monotonic() - self._last > SILENCE_S:
                busy = [name for name, (status, _) in self._seen.items() if "_IN_PROGRESS" in status]
                self._say(f"[dim]still running: {', '.join(busy) or 'the CDK app'}[/dim]")

    def _report(self) -> None:
        before, self._seen = self._seen, self._statuses()
        self.changed = self.changed or before != self._seen
        for name, (status, _) in self._seen.items():
            if before.get(name) != self._seen[name]:
                colour = "red" if "FAILED" in status or "ROLLBACK" in status else "green"
                plain = "_IN_PROGRESS" in status
                self._say(f"{name}: {status}" if plain else f"[{colour}]{name}: {status}[/{colour}]")
        if any(_fails(seen) and not _fails(before.get(name)) for name, seen in self._seen.items()):
            self._say_reasons()
        for name in before.keys() - self._seen.keys():
            self._say(f"[green]{name}: DELETE_COMPLETE[/green]")

    def _say_reasons(self) -> None:
        with contextlib.suppress(ClientError, BotoCoreError):
            for reason in self.failures():
                self._say(f"[red]{escape(reason)}[/red]")

    def _statuses(self) -> dict[str, tuple[Any, ...]]:
        """Status and time of the last change by name; the cluster's own stack with its number of resources."""
        try:
            stacks = stacks_of(self._account, self._environment)
            seen: dict[str, tuple[Any, ...]] = {
                stack["StackName"]: (stack["StackStatus"], stack.get("LastUpdatedTime"))
                for stack in stacks
                if "ParentId" not in stack and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
            }
        except (ClientError, BotoCoreError):
            return self._seen
        client, cluster = self._account.client("cloudformation"), self._environment.cluster_name
        try:
            status = client.describe_stacks(StackName=cluster)["Stacks"][0]["StackStatus"]
            resources = list(resources_of(self._account, cluster))
        except (ClientError, BotoCoreError) as error:
            if "does not exist" in str(error):
                return seen
            return self._seen
        done = sum(resource["ResourceStatus"].endswith("_COMPLETE") for resource in resources)
        return seen | {f"cluster {cluster}": (f"{status}, {done} of {len(resources)} resources", None)}

    def _say(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        self._last = time.monotonic()
        self._console.print(f"[dim]{self._last - self._started:5.0f} s[/dim]  {text}", highlight=False, soft_wrap=True)


def _fails(seen: tuple[Any, ...] | None) -> bool:
    return seen is not None and ("FAILED" in seen[0] or "ROLLBACK_IN_PROGRESS" in seen[0])
