"""What the handler needs of the ParallelCluster API, and the answers it can get."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class ClusterView:
    """One look at a cluster (DescribeCluster), reduced to what decisions and attributes need.

    `status` is the API's clusterStatus, `stack_status` the status of the CloudFormation stack behind it, which tells a
    finished rollback from one that is still running.
    """

    name: str
    status: str
    stack_status: str
    stack_arn: str
    version: str
    tags: Mapping[str, str] = field(default_factory=dict)
    head_node_instance_id: str | None = None
    head_node_private_ip: str | None = None
    failures: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.status if self.status == self.stack_status else f"{self.status} ({self.stack_status})"


@dataclass(frozen=True)
class Message:
    """A message of the configuration's validators."""

    level: str
    type: str
    text: str


@dataclass(frozen=True)
class Change:
    """One key of an update's change set; `message` tells why the API refuses it, and is empty where it does not."""

    parameter: str
    current: str
    requested: str
    message: str = ""


@dataclass(frozen=True)
class Accepted:
    """The API took the request (202). `version` is that of the cluster, empty if the API did not name it."""

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
    """A call that did not do what was asked: one of the three below."""


class ApiError(ApiTrouble):
    """The API answered, and the answer was no.

    `http_status` 412 is the dry run that would have succeeded.
    """

    def __init__(
        self,
        http_status: int,
        message: str,
        *,
        messages: tuple[Message, ...] = (),
        refused: tuple[Change, ...] = (),
        changes: tuple[Change, ...] = (),
    ) -> None:
        super().__init__(f"HTTP {http_status}: {message}")
        self.http_status = http_status
        self.message = message
        self.messages = messages
        self.refused = refused
        self.changes = changes


class ApiUnknownError(ApiTrouble):
    """Nobody can tell whether the request was carried out (5xx, time-out, lost connection): look before asking."""


class ApiAccessError(ApiTrouble):
    """The request was refused before it reached the API: the role cannot be assumed, or may not call."""


class ClusterApi(Protocol):
    """The calls that the handler makes. Each may raise the three errors above; `describe` answers a 404 with None."""

    def describe(self, name: str) -> ClusterView | None:
        """The cluster, or None if there is none of that name."""

    def create(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted: ...

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted: ...

    def delete(self, name: str) -> None: ...

    def fleet(self, name: str) -> str:
        """The compute fleet's status: RUNNING, STOPPED, PROTECTED, UNKNOWN, or one on the way there."""

    def request_fleet(self, name: str, *, running: bool) -> None:
        """Ask for the compute fleet to be started or stopped; it takes its time."""

    def compute_nodes(self, name: str) -> int:
        """How many compute nodes have an instance."""

    def api_version(self, os: str) -> str | None:
        """The API's ParallelCluster version, as far as it shows without a cluster."""

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        """The events of the stack's latest operation, newest first."""

    def log_group(self, name: str) -> str | None:
        """The CloudWatch log group of the cluster's nodes, None if it has none (yet)."""


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
        messages=messages_of(body.get("configurationValidationErrors") or body.get("validationMessages")),
        refused=_changes(body.get("updateValidationErrors")),
        changes=_changes(body.get("changeSet")),
    )


def messages_of(items: list[Mapping[str, str]] | None) -> tuple[Message, ...]:
    return tuple(
        Message(item.get("level", "ERROR"), item.get("type", ""), item.get("message", "")) for item in items or []
    )


def _changes(items: list[Mapping[str, str]] | None) -> tuple[Change, ...]:
    return tuple(
        Change(
            item.get("parameter", "?"),
            item.get("currentValue", "-"),
            item.get("requestedValue", "-"),
            item.get("message", ""),
        )
        for item in items or []
    )
