"""The report of a failure: everything that helps its reader, in the order of use, cut to what CloudFormation takes."""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cluster_resource import changes
from cluster_resource.api import ApiError, ApiTrouble, Change, ClusterApi, ClusterView, Message, StackEvent
from cluster_resource.aws import Aws
from cluster_resource.response import Room

_LOG = logging.getLogger(__name__)
_FIRST_EVENTS = 5
_VALUE_CHARACTERS = 160
_ABSENT = "-"
_NAMED = re.compile(r"\{'Name': '(?P<name>[^']+)'")
_NESTED_LEVELS = 2
STARTS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
_STACK = "AWS::CloudFormation::Stack"


@dataclass(frozen=True)
class Report:
    """`details` may be cut, the rest always reaches the reader."""

    what: str
    todo: str
    details: tuple[str, ...] = ()
    cluster_logs: str = ""

    def text(self, room: Room) -> str:
        """The report for CloudFormation; what has no room there is in the log that the report names."""
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
        # Cut from the end of what went wrong, never from what to do and where to look.
        return room.cut("\n".join((self.what, *middle)), f"\n{tail}")

    def log(self) -> None:
        """Every line of the report; it names keys and messages, never the configuration."""
        for line in (self.what, *self.details, self.todo, self.cluster_logs):
            if line:
                _LOG.error(line)


def _more(lines: int) -> str:
    return f"({lines} more in the log)"


def own_log() -> str:
    """Where this function logs, as CloudWatch names it."""
    group = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "the function's log group")
    stream = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "its latest stream")
    return f"log group {group}, stream {stream}"


def refusal(error: ApiError) -> tuple[str, ...]:
    """The lines of an answer that says no: validation errors first, then what an update may not change."""
    errors = [message for message in error.messages if message.level == "ERROR"]
    others = [message for message in error.messages if message.level != "ERROR"]
    return (
        error.message,
        *(_message_line(message) for message in errors),
        *(_change_line(change) for change in error.refused),
        *(_message_line(message) for message in others),
    )


def refusal_todo(error: ApiError) -> str:
    """What the reader of a refused update can do about it."""
    if changes.stopping_helps(error.refused):
        return (
            "To do: let the update stop the fleet and start it again (cluster.updates.stop_fleet: when-needed in the"
            " environment file); or, where the refusal above names QueueUpdateStrategy, set"
            " cluster.slurm.queue_update: TERMINATE, which ends the jobs of the nodes concerned; then deploy again."
        )
    if error.refused:
        return (
            "To do: take the change back, or allow the update to replace the cluster (cluster.updates.replace:"
            " when-needed), or replace the cluster by giving it another name in the environment file."
        )
    return "To do: correct the configuration and deploy again."


def drift(differences: Sequence[Change]) -> tuple[str, ...]:
    """The keys in which a cluster differs from what is wanted."""
    return tuple(_change_line(change) for change in differences)


def cluster_failures(view: ClusterView) -> tuple[str, ...]:
    return tuple(f"{code}: {reason}" for code, reason in view.failures)


def stack_failures(api: ClusterApi, aws: Aws, name: str) -> tuple[str, ...]:
    """The first failed events of the stack's latest operation, oldest first, each nested stack's behind its own.

    Why they are missing, if they are.
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
        if own and event.status in STARTS:
            return tuple(events[: number + 1])
    return tuple(events)


def first_failed(events: Sequence[StackEvent]) -> tuple[StackEvent, ...]:
    """Failed events, oldest first, without those that were only cancelled because of another's failure."""
    failed = [event for event in reversed(events) if event.status.endswith("_FAILED")]
    causes = [event for event in failed if "cancelled" not in event.reason.lower()]
    return tuple((causes or failed)[:_FIRST_EVENTS])


def cluster_logs(api: ClusterApi, name: str) -> str:
    try:
        group = api.log_group(name)
    except ApiTrouble:
        group = None
    return f"The cluster's own logs: log group {group or f'/aws/parallelcluster/{name}-<time of creation>'}."


def warnings(messages: Sequence[Message]) -> None:
    """Validation messages of an accepted request are no failure: they are logged."""
    for message in messages:
        _LOG.warning(_message_line(message))


def _message_line(message: Message) -> str:
    return f"{message.level} {message.type}: {message.text}"


def _change_line(change: Change) -> str:
    if change.requested == _ABSENT:
        line = f"{change.parameter}: {_short(change.current)} is to go"
    elif change.current == _ABSENT:
        line = f"{change.parameter}: {_short(change.requested)} is to come"
    else:
        line = f"{change.parameter}: now {_short(change.current)}, asked for {_short(change.requested)}"
    return f"{line} ({changes.policy_of(change)}): {change.message}" if change.message else line


def _event_line(event: StackEvent) -> str:
    return f"{event.timestamp} {event.logical_id} ({event.type}) {event.status}: {event.reason or 'no reason given'}"


def _short(value: str) -> str:
    """A value as people name it: a queue or file system, which the API writes out whole, by its name."""
    if named := _NAMED.match(value):
        return named["name"]
    return value if len(value) <= _VALUE_CHARACTERS else f"{value[:_VALUE_CHARACTERS]}..."
