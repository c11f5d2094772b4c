"""What the cluster's own CloudFormation stack says while the CDK CLI waits for the custom resource."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    import boto3

    from local.commands.progress import Progress

INTERVAL_S = 3.0


class Heartbeat:
    """While it is entered, tells the progress of each change of the cluster's stack, and that time goes by."""

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
        while not self._stop.wait(INTERVAL_S):
            seen = self._look()
            if seen != self._last:
                self._last = seen
                self._progress.say(f"cluster {self._cluster}: {seen}")
            else:
                self._progress.sign_of_life()

    def _look(self) -> str:
        """Status and count of finished resources of the cluster's stack; "absent" where there is none."""
        try:
            stack = self._client.describe_stacks(StackName=self._cluster)["Stacks"][0]
            resources = self._client.describe_stack_resources(StackName=self._cluster)["StackResources"]
        except (ClientError, BotoCoreError):
            return "absent"
        done = sum(resource["ResourceStatus"].endswith("_COMPLETE") for resource in resources)
        return f"{stack['StackStatus']}, {done} of {len(resources)} resources"
