"""Failure reports: what failed, why, and what to do, cut to the room that CloudFormation's answer has."""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster_resource.api import (
    ApiAccessError,
    ApiError,
    ApiTrouble,
    ApiUnknownError,
    Change,
    ClusterApi,
    Message,
    StackEvent,
)
from cluster_resource.aws import Aws
from cluster_resource.decide import Fail
from cluster_resource.operation import Operation, Verdict
from cluster_resource.request import NOT_CREATED, Place, Request
from cluster_resource.response import Room, room_for_reason

_LOG = logging.getLogger(__name__)
_FIRST_EVENTS = 5
_VALUE_CHARACTERS = 160
_ABSENT = "-"
_NAMED = re.compile(r"\{'Name': '(?P<name>[^']+)'")
_NESTED_LEVELS = 2
_STARTS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
_STACK = "AWS::CloudFormation::Stack"


@dataclass(frozen=True)
class Report:
    """Only `details` may be cut."""

    what: str
    todo: str
    details: tuple[str, ...] = ()
    cluster_logs: str = ""

    def text(self, room: Room) -> str:
        """The report for CloudFormation; lines without room are in the log that the report names."""
        tail = "\n".join(part for part in (self.todo, self.cluster_logs, f"Full report: {own_log()}.") if part)
        whole = "\n".join((self.what, *self.details, tail))
        if room.fits(whole):
            return whole
        kept: list[str] = []
        for line in self.details:
            if not room.fits("\n".join((self.what, *kept, line, _more(len(self.details)), tail))):
                break
            kept.append(line)
        left_out = len(self.details) - len(kept)
        middle = (*kept, _more(left_out)) if left_out else tuple(kept)
        # The advice and the log groups are never cut.
        return room.cut("\n".join((self.what, *middle)), f"\n{tail}")

    def log(self) -> None:
        """Log the report; it contains keys and messages, never the configuration."""
        for line in (self.what, *self.details, self.todo, self.cluster_logs):
            if line:
                _LOG.error(line)


def _more(lines: int) -> str:
    return f"({lines} more in the log)"


def own_log() -> str:
    """The CloudWatch log of this function."""
    group = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "the function's log group")
    stream = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "its latest stream")
    return f"log group {group}, stream {stream}"


def refusal_lines(error: ApiError) -> tuple[str, ...]:
    """A refusal in lines: validation errors first, then the changes that the API refuses."""
    errors = [message for message in error.messages if message.level == "ERROR"]
    others = [message for message in error.messages if message.level != "ERROR"]
    return (
        error.message,
        *(_message_line(message) for message in errors),
        *change_lines(error.refused),
        *(_message_line(message) for message in others),
    )


def refusal_todo(error: ApiError) -> str:
    """What the user can do about a refusal."""
    if stopping_helps(error.refused):
        return (
            "To do: let the update stop the fleet and start it again (cluster.updates.stop_fleet: when-needed in the"
            " environment file); or, where the refusal above names QueueUpdateStrategy, set"
            " cluster.slurm.queue_update: TERMINATE, which ends the jobs of the nodes concerned; then deploy again."
        )
    if error.refused:
        return (
            "To do: undo the change, or allow the update to replace the cluster (cluster.updates.replace:"
            " when-needed), or replace the cluster by giving it another name in the environment file."
        )
    return "To do: correct the configuration and deploy again."


def stopping_helps(refused: Sequence[Change]) -> bool:
    """Whether the API would accept every refused change with a stopped compute fleet."""
    return bool(refused) and all(
        change.needs_stopped_fleet and not change.needs_stopped_login_nodes for change in refused
    )


def change_lines(changes: Sequence[Change]) -> tuple[str, ...]:
    return tuple(_change_line(change) for change in changes)


def stack_failures(api: ClusterApi, aws: Aws, name: str) -> tuple[str, ...]:
    """The first failed events of the stack's latest operation, oldest first, each followed by its nested stack's.

    If they cannot be read, one line says why.
    """
    try:
        events = api.stack_events(name)
    except ApiTrouble as error:
        return (f"The stack's events could not be read: {error}",)
    return _with_nested(aws, first_failed(events), _NESTED_LEVELS)


def _with_nested(aws: Aws, failed: Sequence[StackEvent], levels: int) -> tuple[str, ...]:
    lines: list[str] = []
    for event in failed:
        lines.append(_event_line(event))
        if levels and event.type == _STACK and event.physical_id not in ("", event.stack_id):
            inner = latest_operation(aws.failed_events(event.physical_id))
            lines += _with_nested(aws, first_failed(inner), levels - 1)
    return tuple(lines)


def latest_operation(events: Sequence[StackEvent]) -> tuple[StackEvent, ...]:
    """The events, newest first, back to the start of the stack's latest operation."""
    for number, event in enumerate(events):
        own = event.physical_id == event.stack_id
        if own and event.status in _STARTS:
            return tuple(events[: number + 1])
    return tuple(events)


def first_failed(events: Sequence[StackEvent]) -> tuple[StackEvent, ...]:
    """Failed events, oldest first, without those that were cancelled because of another failure."""
    failed = [event for event in reversed(events) if event.status.endswith("_FAILED")]
    causes = [event for event in failed if "cancelled" not in event.reason.lower()]
    return tuple((causes or failed)[:_FIRST_EVENTS])


def cluster_logs(api: ClusterApi, name: str) -> str:
    try:
        group = api.log_group(name)
    except ApiTrouble:
        group = None
    return f"The cluster's own logs: log group {group or f'/aws/parallelcluster/{name}-<time of creation>'}."


def log_messages(messages: Sequence[Message]) -> None:
    """Log the validation messages of an accepted request."""
    for message in messages:
        _LOG.warning(_message_line(message))


def _message_line(message: Message) -> str:
    return f"{message.level} {message.type}: {message.text}"


def _change_line(change: Change) -> str:
    if change.requested == _ABSENT:
        line = f"{change.parameter}: {_short(change.current)} is removed"
    elif change.current == _ABSENT:
        line = f"{change.parameter}: {_short(change.requested)} is added"
    else:
        line = f"{change.parameter}: now {_short(change.current)}, asked for {_short(change.requested)}"
    return f"{line} ({_rule(change)}): {change.message}" if change.message else line


def _rule(change: Change) -> str:
    if change.needs_stopped_login_nodes:
        return "needs the login nodes stopped"
    return "needs the compute fleet stopped" if change.needs_stopped_fleet else "can never change in place"


def _event_line(event: StackEvent) -> str:
    return f"{event.timestamp} {event.logical_id} ({event.type}) {event.status}: {event.reason or 'no reason given'}"


def _short(value: str) -> str:
    """A shortened value; the API writes out queues and file systems in full, here their name is enough."""
    if named := _NAMED.match(value):
        return named["name"]
    return value if len(value) <= _VALUE_CHARACTERS else f"{value[:_VALUE_CHARACTERS]}..."


def wrong_api_version(api_url: str, version: str, wanted: str) -> Fail:
    return Fail(
        f"The API at {api_url} creates clusters of ParallelCluster {version}, but {wanted} is wanted.",
        "Point the environment at an API of that version, or set the version to that of the API.",
        touched=False,
    )


def no_answer(operation: Operation, name: str, error: ApiUnknownError, seen: str) -> Fail:
    return Fail(
        f"The ParallelCluster API did not carry out the {operation.kind} of the cluster {name} in"
        f" {operation.progress.unknown_calls} attempts; the last answer: {error}. The cluster: {seen}.",
        "Look at the log group of the ParallelCluster API's function, then deploy again.",
    )


def refused(operation: Operation, name: str, error: ApiError, *, touched: bool) -> Fail:
    return Fail(
        f"The ParallelCluster API refused the {operation.kind} of the cluster {name} (HTTP {error.http_status}).",
        refusal_todo(error),
        touched=touched,
    )


def differs(name: str) -> Fail:
    return Fail(
        f"A cluster {name} of this resource exists already, with another configuration. It was not touched.",
        "Delete it, or deploy with its configuration first and change that afterwards.",
        touched=False,
    )


def half_updated(name: str, seen: str) -> Fail:
    return Fail(
        f"The cluster {name} has the wanted configuration, but is {seen}.",
        "Bring its stack to a stable state, then deploy again.",
        events=True,
    )


def no_access(place: Place, error: ApiAccessError) -> Fail:
    return Fail(
        f"The ParallelCluster API could not be called: {error}.",
        f"Check that this function may assume {place.api_user_role_arn}, and that the role may call {place.api_url}.",
    )


def left_behind(name: str) -> str:
    return f"The cluster {name}, left by a failed rename, could not be deleted: delete it, it costs money."


def without_outcome(request: Request, what: str, todo: str, *, asked: bool) -> Verdict:
    """The answer if no step reached a verdict: wrong properties, or an error in this function.

    Args:
        request: the request of CloudFormation.
        what: what failed.
        todo: what the user can do.
        asked: whether the API may have been asked to create a cluster; the Delete that follows then looks for one.
    """
    name = request.claimed_name
    identifier = request.physical_id
    if identifier is None and name and asked:
        identifier = request.own_id(name)
    verdict = Verdict("FAILED", identifier or not_created_id(name or "unnamed"), "")
    return reported(request, verdict, Report(what, f"To do: {todo}"))


def reported(request: Request, verdict: Verdict, report: Report) -> Verdict:
    """The verdict with the report as its reason; the whole report is logged."""
    report.log()
    return replace(verdict, reason=report.text(room_for_reason(request, verdict)))


def not_created_id(cluster_name: str) -> str:
    """The physical id of a cluster that was never created; its Delete does nothing."""
    return f"{NOT_CREATED}/{cluster_name}"
