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
from cluster_resource.order import Known, order_of

_LOG = logging.getLogger("cluster_resource")
_LOG.setLevel(logging.INFO)
_LISTED = 200


class StateMachines(Protocol):
    """The calls that are made of the Step Functions client."""

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> Any: ...  # noqa: N803, ANN401

    def list_executions(self, *, stateMachineArn: str, maxResults: int) -> Any: ...  # noqa: N803, ANN401

    def stop_execution(self, *, executionArn: str, error: str, cause: str) -> Any: ...  # noqa: N803, ANN401


class Executions(Protocol):
    """The executions of the resource's state machine."""

    def known(self) -> list[Known]:
        """The newest of them."""

    def start(self, name: str, event: dict[str, Any]) -> None: ...

    def stop(self, arn: str, why: str) -> None: ...


class StepFunctions:
    """`Executions` on AWS Step Functions."""

    def __init__(self, client: StateMachines, state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    def known(self) -> list[Known]:
        """The newest ones; an event whose rivals are older than that many others is long past."""
        answer = self._client.list_executions(stateMachineArn=self._arn, maxResults=_LISTED)
        return [Known(item["name"], item["executionArn"], item["status"] == "RUNNING") for item in answer["executions"]]

    def start(self, name: str, event: dict[str, Any]) -> None:
        """Start an execution; one that exists under that name is the same event, delivered twice."""
        try:
            self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(event))
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "ExecutionAlreadyExists":
                raise
            _LOG.info("The execution %s exists already: the event was delivered twice", name)

    def stop(self, arn: str, why: str) -> None:
        """Stop an execution; one that has ended in the meantime is no matter."""
        try:
            self._client.stop_execution(executionArn=arn, error="Overtaken", cause=why)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in ("ExecutionDoesNotExist", "ValidationException"):
                raise
            _LOG.info("The execution %s had ended already", arn)


def handler(event: dict[str, Any], _context: object) -> None:
    receive(event, _executions())


def receive(event: dict[str, Any], executions: Executions, *, send: Callable[..., None] = response.send) -> None:
    """Start the execution of an event; if that fails, answer FAILED at once, lest CloudFormation wait for an hour."""
    _LOG.info("%s %s of %s", event.get("RequestType"), event.get("LogicalResourceId"), event.get("RequestId"))
    try:
        order = order_of(event, executions.known())
        if order.twice:
            _LOG.info("The execution %s exists already: the event was delivered twice", order.name)
            return
        if order.overtaken_by:
            _refuse(event, f"A later event of this resource ({order.overtaken_by}) took its place.", send)
            return
        for outdated in order.outdated:
            _LOG.warning("The execution %s is stopped: a later event took its place", outdated.name)
            executions.stop(outdated.arn, f"A later event took its place: {order.name}")
        executions.start(order.name, event)
    except (ClientError, BotoCoreError) as error:
        _refuse(event, f"The work could not be started: {error}", send)


def _refuse(event: dict[str, Any], what: str, send: Callable[..., None]) -> None:
    todo = "check the state machine and this function's permission to start it, then deploy again."
    send(event, verdicts.failed_verdict(event, what, todo, asked=False))


@cache
def _executions() -> StepFunctions:
    client = botocore.session.get_session().create_client(
        "stepfunctions",
        config=Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4}),
    )
    return StepFunctions(cast("StateMachines", client), os.environ["STATE_MACHINE_ARN"])
