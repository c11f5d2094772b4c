"""Lambda handler that CloudFormation calls: it puts the event in order and starts the state machine.

A cancelled update leaves its execution running when the rollback's event arrives, and Lambda may deliver an event late
or twice. So an execution is called `<digest of the owner>-<time>-<RequestId>`; the time is when CloudFormation signed
the event's ResponseURL, in seconds since the epoch, 0 if the URL does not show it.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource import failures, response
from cluster_resource.aws import client, error_code
from cluster_resource.request import Request

_LOG = logging.getLogger("cluster_resource")
_LOG.setLevel(logging.INFO)
_LISTED = 200
_NAME_CHARACTERS = 80  # of a Step Functions execution
_PARTS = 2


@dataclass(frozen=True)
class Known:
    """An execution in Step Functions."""

    name: str
    arn: str
    running: bool


@dataclass(frozen=True)
class Order:
    """What an event's place among the others means for it.

    Attributes:
        name: of the event's execution.
        twice: the event was delivered before.
        overtaken_by: the execution of a newer event; this event must not be carried out.
        outdated: executions of older events that still run.
    """

    name: str
    twice: bool
    overtaken_by: str | None
    outdated: tuple[Known, ...]


class Executions(Protocol):
    """The executions of the resource's state machine."""

    def known(self) -> list[Known]:
        """The newest ones."""

    def start(self, name: str, event: dict[str, Any]) -> None: ...

    def stop(self, arn: str, why: str) -> None: ...


class StepFunctions:
    """`Executions` on AWS Step Functions."""

    def __init__(self, stepfunctions: Any, state_machine_arn: str) -> None:  # noqa: ANN401 - botocore's
        self._client = stepfunctions
        self._arn = state_machine_arn

    def known(self) -> list[Known]:
        """The newest ones; older executions cannot compete with a new event."""
        answer = self._client.list_executions(stateMachineArn=self._arn, maxResults=_LISTED)
        return [Known(item["name"], item["executionArn"], item["status"] == "RUNNING") for item in answer["executions"]]

    def start(self, name: str, event: dict[str, Any]) -> None:
        """Start an execution; if the name exists, the event was delivered twice."""
        try:
            self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(event))
        except ClientError as error:
            if error_code(error) != "ExecutionAlreadyExists":
                raise
            _LOG.info("The execution %s exists already: the event was delivered twice", name)

    def stop(self, arn: str, why: str) -> None:
        """Stop an execution, unless it has ended."""
        try:
            self._client.stop_execution(executionArn=arn, error="Overtaken", cause=why)
        except ClientError as error:
            if error_code(error) not in ("ExecutionDoesNotExist", "ValidationException"):
                raise
            _LOG.info("The execution %s had ended already", arn)


def handler(event: dict[str, Any], _context: object) -> None:
    receive(event, StepFunctions(client("stepfunctions"), os.environ["STATE_MACHINE_ARN"]))


def receive(event: dict[str, Any], executions: Executions, *, send: Callable[..., None] = response.send) -> None:
    """Start the execution of an event; if that fails, answer FAILED at once: CloudFormation would wait for an hour."""
    request = Request.of(event)
    _LOG.info("%s %s of %s", request.type, request.logical_id, request.request_id)
    try:
        order = order_of(request, executions.known())
        if order.twice:
            _LOG.info("The execution %s exists already: the event was delivered twice", order.name)
            return
        if order.overtaken_by:
            _refuse(request, f"A later event of this resource ({order.overtaken_by}) took its place.", send)
            return
        for outdated in order.outdated:
            _LOG.warning("The execution %s is stopped: a later event took its place", outdated.name)
            executions.stop(outdated.arn, f"A later event took its place: {order.name}")
        executions.start(order.name, event)
    except (ClientError, BotoCoreError) as error:
        _refuse(request, f"The operation could not be started: {error}", send)


def _refuse(request: Request, what: str, send: Callable[..., None]) -> None:
    todo = "check the state machine and this function's permission to start it, then deploy again."
    send(request, failures.without_outcome(request, what, todo, asked=False))


def name_of(request: Request) -> str:
    return f"{request.digest}-{signed_at(request)}-{request.request_id}"[:_NAME_CHARACTERS]


def order_of(request: Request, known: Sequence[Known]) -> Order:
    """The event's place among the known executions, of this resource and of others."""
    name, prefix = name_of(request), f"{request.digest}-"
    mine = _time(name)
    others = [execution for execution in known if execution.name.startswith(prefix) and execution.name != name]
    newer = [execution for execution in others if mine and _time(execution.name) > mine]
    return Order(
        name=name,
        twice=any(execution.name == name for execution in known),
        overtaken_by=max((execution.name for execution in newer), key=_time, default=None),
        outdated=tuple(execution for execution in others if execution.running and execution not in newer),
    )


def signed_at(request: Request) -> int:
    """When the ResponseURL was signed, seconds since the epoch: SigV4's date, or the older form's expiry, 0 if neither.

    They only compare events of one resource, which come from one signer.
    """
    query = parse_qs(urlsplit(str(request.event.get("ResponseURL", ""))).query)
    date, expires = query.get("X-Amz-Date"), query.get("Expires")
    try:
        if date:
            return int(datetime.strptime(date[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
        return int(expires[0]) if expires else 0
    except ValueError:
        return 0


def _time(name: str) -> int:
    parts = name.split("-", _PARTS)
    return int(parts[1]) if len(parts) > _PARTS and parts[1].isdigit() else 0
