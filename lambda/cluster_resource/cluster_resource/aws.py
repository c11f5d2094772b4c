"""The AWS calls that do not go through the ParallelCluster API."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource.api import StackEvent, latest_operation

_LOG = logging.getLogger(__name__)
_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})
_ANSWER_SECONDS = 30
_PENDING = ("Pending", "InProgress", "Delayed", "Cancelling")
_EVENT_PAGES = 5
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Execution:
    """An execution's status, UNKNOWN if the call failed; `cause` is the reason of a failure."""

    status: str
    cause: str = ""


class Aws:
    """No method raises: a failed call returns None, () or UNKNOWN; callers assume the worse case.

    Args:
        client: returns the botocore client of a service.
        jobs_document: the SSM document that counts jobs; None: jobs cannot be counted.
    """

    def __init__(
        self,
        client: Callable[[str], Any],
        *,
        jobs_document: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._jobs_document = jobs_document
        self._sleep = sleep

    def stack_status(self, stack_id: str) -> str | None:
        try:
            stacks = self._client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"]
        except (ClientError, BotoCoreError) as error:
            _LOG.warning("The status of the stack %s could not be read: %s", stack_id, error)
            return None
        return str(stacks[0]["StackStatus"]) if stacks else None

    def stack_events(self, stack_id: str) -> tuple[StackEvent, ...]:
        """The events of the stack's latest operation, newest first; those of the pages before one that fails."""
        return latest_operation(self._events(stack_id))

    def _events(self, stack_id: str) -> Iterator[dict[str, Any]]:
        try:
            pages = self._client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=stack_id)
            for page in islice(pages, _EVENT_PAGES):
                for item in page["StackEvents"]:
                    yield {**item, "Timestamp": item["Timestamp"].strftime("%Y-%m-%dT%H:%M:%S.000Z")}
        except (ClientError, BotoCoreError) as error:
            _LOG.warning("The events of the stack %s could not be read: %s", stack_id, error)

    def running_jobs(self, instance_id: str) -> int | None:
        """The number of running jobs, from Slurm on that head node."""
        if not self._jobs_document:
            return None
        try:
            return self._count(instance_id, self._jobs_document)
        except (ClientError, BotoCoreError, ValueError) as error:
            _LOG.warning("The jobs on %s could not be counted: %s", instance_id, error)
            return None

    def _count(self, instance_id: str, document: str) -> int | None:
        ssm = self._client("ssm")
        sent = ssm.send_command(InstanceIds=[instance_id], DocumentName=document, TimeoutSeconds=30)
        command = sent["Command"]["CommandId"]
        for _ in range(_ANSWER_SECONDS):
            self._sleep(1.0)
            try:
                answer = ssm.get_command_invocation(CommandId=command, InstanceId=instance_id)
            except ClientError as error:
                if error_code(error) == "InvocationDoesNotExist":
                    continue
                raise
            if answer["Status"] == "Success":
                return int(answer["StandardOutputContent"].strip())
            if answer["Status"] not in _PENDING:
                _LOG.warning("Counting the jobs on %s ended as %s", instance_id, answer["Status"])
                return None
        return None

    def execution(self, arn: str) -> Execution | None:
        """An execution of the state machine; None if Step Functions does not know it (any more)."""
        try:
            found = self._client("stepfunctions").describe_execution(executionArn=arn)
        except (ClientError, BotoCoreError) as error:
            if isinstance(error, ClientError) and error_code(error) == "ExecutionDoesNotExist":
                return None
            _LOG.warning("The execution %s could not be described: %s", arn, error)
            return Execution(UNKNOWN)
        return Execution(str(found["status"]), str(found.get("cause") or ""))


def error_code(error: ClientError) -> str | None:
    return error.response.get("Error", {}).get("Code")


def new_client(service: str) -> Any:  # noqa: ANN401 - botocore's
    """A client of the function's own region."""
    return botocore.session.get_session().create_client(service, config=_CONFIG)


client = cache(new_client)


def own_aws() -> Aws:
    return Aws(client, jobs_document=os.environ.get("JOBS_DOCUMENT"))
