"""The ParallelCluster API as the handler uses it: its calls, answers and errors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

OWNER_TAG = "trainyard:owner"
# Sentences of ParallelCluster's refusals (pcluster/config/update_policy.py, 3.16.1).
_STOP_FLEET = re.compile(r"compute nodes must be stopped|stop the compute fleet", re.IGNORECASE)
_STOP_LOGIN = re.compile(r"login nodes must be stopped|stop the login nodes", re.IGNORECASE)
_NEVER = re.compile(r"not currently supported", re.IGNORECASE)
_COUNTS = re.compile(r"\.(MinCount|MaxCount)$")
_STARTS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
_EVENT_KEYS = (
    "timestamp",
    "stackId",
    "logicalResourceId",
    "physicalResourceId",
    "resourceType",
    "resourceStatus",
    "resourceStatusReason",
)


@dataclass(frozen=True)
class ClusterView:
    """A DescribeCluster answer. `stack_status` also shows whether a rollback is finished; `status` does not."""

    name: str
    status: str
    stack_status: str
    stack_arn: str
    version: str
    tags: Mapping[str, str] = field(default_factory=dict)
    head_node_instance_id: str | None = None
    head_node_private_ip: str | None = None
    failures: tuple[tuple[str, str], ...] = ()

    @property
    def owner(self) -> str | None:
        return self.tags.get(OWNER_TAG)

    def __str__(self) -> str:
        return self.status if self.status == self.stack_status else f"{self.status} ({self.stack_status})"


@dataclass(frozen=True)
class Message:
    """A message of the configuration's validators."""

    level: str
    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.level} {self.type}: {self.text}"


@dataclass(frozen=True)
class Change:
    """One key of an update's change set; `message` is the API's reason to refuse it, or empty."""

    parameter: str
    current: str
    requested: str
    message: str = ""

    @property
    def needs_stopped_fleet(self) -> bool:
        return bool(_STOP_FLEET.search(self.message))

    @property
    def needs_stopped_login_nodes(self) -> bool:
        return bool(_STOP_LOGIN.search(self.message))

    @property
    def never_in_place(self) -> bool:
        return bool(_NEVER.search(self.message))

    @property
    def ends_nodes(self) -> bool:
        """Under QueueUpdateStrategy TERMINATE: the change is in a queue and does not only add nodes."""
        if "SlurmQueues" not in self.parameter:
            return False
        counts = bool(_COUNTS.search(self.parameter))
        if self.current == "-":
            return counts
        if counts and self.current.isdigit() and self.requested.isdigit():
            return int(self.requested) < int(self.current)
        return True


@dataclass(frozen=True)
class Accepted:
    """The API accepted the request (202). `version`: of the cluster, empty if the API did not name it."""

    version: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class StackEvent:
    """An event of the cluster's CloudFormation stack."""

    timestamp: str
    stack_id: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str


class ApiTrouble(Exception):
    """A call that failed: one of the three below."""


@dataclass(eq=False)
class ApiError(ApiTrouble):
    """The API refused the request. `http_status` 412: a dry run that would have succeeded."""

    http_status: int
    message: str
    messages: tuple[Message, ...] = ()
    refused: tuple[Change, ...] = ()
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return f"HTTP {self.http_status}: {self.message}"


class ApiUnknownError(ApiTrouble):
    """It is not known whether the request was carried out (5xx, timeout, lost connection): describe before retrying."""


class ApiAccessError(ApiTrouble):
    """The request did not reach the API: the role cannot be assumed, or may not call it."""


class ClusterApi(Protocol):
    """The calls that the handler makes. Each may raise the three errors above."""

    def describe(self, name: str) -> ClusterView | None:
        """The cluster, or None for a 404."""

    def create(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted: ...

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted: ...

    def delete(self, name: str) -> None: ...

    def fleet(self, name: str) -> str:
        """The compute fleet's status: RUNNING, STOPPED, PROTECTED, UNKNOWN, or a transitional one."""

    def request_fleet(self, name: str, *, running: bool) -> None:
        """Request the start or stop of the compute fleet; the API does not wait for it."""

    def compute_nodes(self, name: str) -> int:
        """The number of compute nodes that have an instance."""

    def api_version(self, os: str) -> str | None:
        """The API's ParallelCluster version; None if its list of official images does not show it."""

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        """The events of the stack's latest operation, newest first."""

    def log_group(self, name: str) -> str | None:
        """The CloudWatch log group of the cluster's nodes, None if there is none yet."""


def view_of(body: Mapping[str, Any]) -> ClusterView:
    """A DescribeCluster answer as a view."""
    head_node = body.get("headNode") or {}
    return ClusterView(
        name=body["clusterName"],
        status=body["clusterStatus"],
        stack_status=body["cloudFormationStackStatus"],
        stack_arn=body["cloudformationStackArn"],
        version=body["version"],
        tags={tag["key"]: tag.get("value", "") for tag in body.get("tags") or []},
        head_node_instance_id=head_node.get("instanceId"),
        head_node_private_ip=head_node.get("privateIpAddress"),
        failures=tuple(
            (failure.get("failureCode") or "unknown", failure.get("failureReason") or "no reason given")
            for failure in body.get("failures") or []
        ),
    )


def error_of(http_status: int, body: Mapping[str, Any]) -> ApiError:
    """An error answer of the API as an exception."""
    return ApiError(
        http_status,
        str(body.get("message") or body.get("Message") or "no message"),
        messages_of(body.get("configurationValidationErrors") or body.get("validationMessages")),
        refused=_changes(body.get("updateValidationErrors")),
        changes=_changes(body.get("changeSet")),
    )


def messages_of(items: list[Mapping[str, str]] | None) -> tuple[Message, ...]:
    return tuple(
        Message(item.get("level", "ERROR"), item.get("type", ""), item.get("message", "")) for item in items or []
    )


def _changes(items: list[Mapping[str, str]] | None) -> tuple[Change, ...]:
    defaults = {"parameter": "?", "currentValue": "-", "requestedValue": "-", "message": ""}
    return tuple(Change(*(item.get(key, default) for key, default in defaults.items())) for item in items or [])


def latest_operation(items: Iterable[Mapping[str, Any]]) -> tuple[StackEvent, ...]:
    """The stack's events, newest first, back to the start of its latest operation.

    Args:
        items: from the ParallelCluster API, whose keys start with a small letter, or from CloudFormation.
    """
    events: list[StackEvent] = []
    for item in items:
        given = {key[0].lower() + key[1:]: value for key, value in item.items()}
        events.append(StackEvent(*(str(given.get(key) or "") for key in _EVENT_KEYS)))
        if events[-1].physical_id == events[-1].stack_id and events[-1].status in _STARTS:
            break
    return tuple(events)
