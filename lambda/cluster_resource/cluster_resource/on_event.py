"""Lambda handler that CloudFormation calls: it starts the state machine for the event, and nothing else."""

import json
import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, cast

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource import response, verdicts

_LOG = logging.getLogger("cluster_resource")
_LOG.setLevel(logging.INFO)
_NAME_CHARACTERS = 80  # of a Step Functions execution


class StateMachines(Protocol):
    """The one call that is made of the Step Functions client."""

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> Any: ...  # noqa: N803, ANN401


class Executions(Protocol):
    """Starts executions of the resource's state machine."""

    def start(self, name: str, event: dict[str, Any]) -> None: ...


class StepFunctions:
    """`Executions` on AWS Step Functions."""

    def __init__(self, client: StateMachines, state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    def start(self, name: str, event: dict[str, Any]) -> None:
        """Start an execution; one that exists under that name is the same event, delivered twice."""
        try:
            self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(event))
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "ExecutionAlreadyExists":
                raise
            _LOG.info("The execution %s exists already: the event was delivered twice", name)


def handler(event: dict[str, Any], _context: object) -> None:
    receive(event, _executions())


def receive(event: dict[str, Any], executions: Executions, *, send: Callable[..., None] = response.send) -> None:
    """Start the execution of an event; if that fails, answer FAILED at once, lest CloudFormation wait for an hour."""
    _LOG.info("%s %s of %s", event.get("RequestType"), event.get("LogicalResourceId"), event.get("RequestId"))
    try:
        executions.start(str(event["RequestId"])[:_NAME_CHARACTERS], event)
    except (ClientError, BotoCoreError) as error:
        verdict = verdicts.failed_verdict(
            event,
            f"The work could not be started: {error}",
            "check the state machine and this function's permission to start it, then deploy again.",
            asked=False,
        )
        send(event, verdict)


@cache
def _executions() -> StepFunctions:
    client = botocore.session.get_session().create_client(
        "stepfunctions",
        config=Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4}),
    )
    return StepFunctions(cast("StateMachines", client), os.environ["STATE_MACHINE_ARN"])
