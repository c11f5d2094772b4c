"""Failure reports: what failed, why, and what to do, cut to the room that CloudFormation's answer has."""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from cluster_resource.api import ApiError, ApiTrouble, Change, ClusterApi, StackEvent
from cluster_resource.aws import Aws
from cluster_resource.operation import Verdict
from cluster_resource.request import NOT_CREATED, Request
from cluster_resource.response import fits, with_reason

_LOG = logging.getLogger(__name__)
_FIRST_EVENTS = 5
_VALUE_CHARACTERS = 160
_ABSENT = "-"
_NAMED = re.compile(r"\{'Name': '(?P<name>[^']+)'")
_NESTED_LEVELS = 2
_STACK = "AWS::CloudFormation::Stack"


def report(request: Request, verdict: Verdict, what: str, details: Sequence[str], *advice: str) -> Verdict:
    """The verdict with a report as its reason: as many details as the answer has room for, and all advice.

    The whole report is logged; it contains keys and messages, never the configuration.
    """
    for line in (what, *details, *advice):
        _LOG.error(line)
    tail = "\n".join(("", *advice, f"Full report: {own_log()}."))
    for count in range(len(details), -1, -1):
        more = (f"({len(details) - count} more in the log)",) if count < len(details) else ()
        head = "\n".join((what, *details[:count], *more))
        if fits(request, replace(verdict, reason=head + tail)):
            break
    return with_reason(request, verdict, head, tail)


def own_log() -> str:
    """The CloudWatch log of this function."""
    group = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "the function's log group")
    stream = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "its latest stream")
    return f"log group {group}, stream {stream}"


def refusal_lines(error: ApiError) -> tuple[str, ...]:
    """A refusal in lines: validation errors first, then the changes that the API refuses."""
    errors = [str(message) for message in error.messages if message.level == "ERROR"]
    others = [str(message) for message in error.messages if message.level != "ERROR"]
    return (error.message, *errors, *map(change_line, error.refused), *others)


def stack_failures(api: ClusterApi, aws: Aws, name: str) -> tuple[str, ...]:
    """The first failed events of the stack's latest operation, oldest first, each followed by its nested stack's.

    Events that were cancelled because of another failure are left out.
    """
    try:
        events = api.stack_events(name)
    except ApiTrouble as error:
        return (f"The stack's events could not be read: {error}",)
    return _with_nested(aws, events, _NESTED_LEVELS)


def _with_nested(aws: Aws, events: Sequence[StackEvent], levels: int) -> tuple[str, ...]:
    failed = [event for event in reversed(events) if event.status.endswith("_FAILED")]
    causes = [event for event in failed if "cancelled" not in event.reason.lower()]
    lines: list[str] = []
    for event in (causes or failed)[:_FIRST_EVENTS]:
        reason = event.reason or "no reason given"
        lines.append(f"{event.timestamp} {event.logical_id} ({event.type}) {event.status}: {reason}")
        if levels and event.type == _STACK and event.physical_id not in ("", event.stack_id):
            lines += _with_nested(aws, aws.stack_events(event.physical_id), levels - 1)
    return tuple(lines)


def cluster_logs(api: ClusterApi, name: str) -> str:
    try:
        group = api.log_group(name)
    except ApiTrouble:
        group = None
    return f"The cluster's own logs: log group {group or f'/aws/parallelcluster/{name}-<time of creation>'}."


def change_line(change: Change) -> str:
    if change.requested == _ABSENT:
        line = f"{change.parameter}: {_short(change.current)} is removed"
    elif change.current == _ABSENT:
        line = f"{change.parameter}: {_short(change.requested)} is added"
    else:
        line = f"{change.parameter}: now {_short(change.current)}, asked for {_short(change.requested)}"
    if not change.message:
        return line
    rule = "needs the compute fleet stopped" if change.needs_stopped_fleet else "can never change in place"
    rule = "needs the login nodes stopped" if change.needs_stopped_login_nodes else rule
    return f"{line} ({rule}): {change.message}"


def _short(value: str) -> str:
    """A shortened value; the API writes out queues and file systems in full, here their name is enough."""
    if named := _NAMED.match(value):
        return named["name"]
    return value if len(value) <= _VALUE_CHARACTERS else f"{value[:_VALUE_CHARACTERS]}..."


def without_outcome(request: Request, what: str, todo: str, *, asked: bool) -> Verdict:
    """The answer if no step reached a verdict: wrong properties, or an error in this function.

    Args:
        asked: whether the API may have been asked to create a cluster; the Delete that follows then looks for one.
    """
    name = request.claimed_name
    identifier = request.physical_id
    if identifier is None and name and asked:
        identifier = request.own_id(name)
    verdict = Verdict("FAILED", identifier or not_created_id(name or "unnamed"), "")
    return report(request, verdict, what, (), f"To do: {todo}")


def not_created_id(cluster_name: str) -> str:
    """The physical id of a cluster that was never created; its Delete does nothing."""
    return f"{NOT_CREATED}/{cluster_name}"
