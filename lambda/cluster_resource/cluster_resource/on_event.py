"""Lambda handler that CloudFormation calls: it puts the event in order and starts the state machine.

A cancelled update leaves its execution running when the rollback's event arrives, and Lambda may deliver an event late
or twice. So an execution is called `<digest of the owner>-<time>-<RequestId>`; the time is when CloudFormation signed
the event's ResponseURL, in seconds since the epoch, 0 if the URL does not show it.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource import failures, response
from cluster_resource.aws import client, error_code
from cluster_resource.request import Request

_LOG = logging.getLogger("cluster_resource")
_LOG.setLevel(logging.INFO)
_LISTED = 200
_NAME_CHARACTERS = 80  # of a Step Functions execution


def handler(event: dict[str, Any], _context: object) -> None:
    receive(event, client("stepfunctions"), os.environ["STATE_MACHINE_ARN"])


def receive(
    event: dict[str, Any],
    stepfunctions: Any,  # noqa: ANN401 - botocore's
    machine: str,
    *,
    send: Callable[..., None] = response.send,
) -> None:
    """Start the execution of an event; if that fails, answer FAILED at once: CloudFormation would wait for an hour."""
    request = Request.of(event)
    _LOG.info("%s %s of %s", request.type, request.logical_id, request.request_id)
    try:
        failure = _start(request, stepfunctions, machine)
    except (ClientError, BotoCoreError) as error:
        failure = f"The operation could not be started: {error}"
    if failure:
        todo = "check the state machine and this function's permission to start it, then deploy again."
        send(request, failures.without_outcome(request, failure, todo, asked=False))


def _start(request: Request, stepfunctions: Any, machine: str) -> str:  # noqa: ANN401 - botocore's
    """Start the execution in place of older ones of the resource. Returns why it was not started, or an empty text."""
    name = name_of(request)
    # Executions that are not among the newest cannot compete with a new event.
    listed = stepfunctions.list_executions(stateMachineArn=machine, maxResults=_LISTED)["executions"]
    others = [item for item in listed if item["name"].startswith(f"{request.digest}-")]
    if any(item["name"] == name for item in others):
        _LOG.info("The execution %s exists already: the event was delivered twice", name)
        return ""
    newer = [item["name"] for item in others if _time(item["name"]) > _time(name) > 0]
    if newer:
        return f"A later event of this resource ({max(newer, key=_time)}) took its place."
    cause = f"A later event took its place: {name}"
    for item in others:
        if item["status"] == "RUNNING":
            _LOG.warning("The execution %s is stopped: a later event took its place", item["name"])
            with _tolerated("ExecutionDoesNotExist", "ValidationException"):  # it has ended meanwhile
                stepfunctions.stop_execution(executionArn=item["executionArn"], error="Overtaken", cause=cause)
    with _tolerated("ExecutionAlreadyExists"):  # the event was delivered twice at the same time
        stepfunctions.start_execution(stateMachineArn=machine, name=name, input=json.dumps(request.event))
    return ""


@contextmanager
def _tolerated(*codes: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error_code(error) not in codes:
            raise
        _LOG.info("%s", error)


def name_of(request: Request) -> str:
    return f"{request.digest}-{signed_at(request)}-{request.request_id}"[:_NAME_CHARACTERS]


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
    """The time in an execution's name; 0 for an execution that was started by hand under a name without one."""
    time = name.split("-")[1]
    return int(time) if time.isdecimal() else 0
