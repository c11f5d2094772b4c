"""One event at a time: which of a resource's events is the newest, told by the names of their executions.

A cancelled update leaves its execution running while the rollback's event arrives, and Lambda may deliver an event late
or twice. An execution is called `<digest of the owner>-<time>-<RequestId>`; the time is the one at which CloudFormation
signed the event's ResponseURL, in seconds since the epoch, 0 where the URL does not tell.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cluster_resource import identity
from cluster_resource.properties import request_of

_LOG = logging.getLogger(__name__)
_NAME_CHARACTERS = 80  # of a Step Functions execution
_PARTS = 2


@dataclass(frozen=True)
class Known:
    """An execution that Step Functions knows."""

    name: str
    arn: str
    running: bool


@dataclass(frozen=True)
class Order:
    """What an event's place among the others means for it.

    Attributes:
        name: of the event's execution.
        twice: the event was delivered before.
        overtaken_by: the name of a newer event's execution; the event must not be carried out any more.
        outdated: executions of older events that still run.
    """

    name: str
    twice: bool
    overtaken_by: str | None
    outdated: tuple[Known, ...]


def prefix_of(event: Mapping[str, Any]) -> str:
    request = request_of(event)
    return f"{identity.digest(request.stack_id, request.logical_id)}-"


def name_of(event: Mapping[str, Any]) -> str:
    return f"{prefix_of(event)}{signed_at(event)}-{request_of(event).request_id}"[:_NAME_CHARACTERS]


def order_of(event: Mapping[str, Any], known: Sequence[Known]) -> Order:
    """The event's place among the executions that are known, of this resource or of others."""
    name, prefix = name_of(event), prefix_of(event)
    mine = _time(name)
    others = [execution for execution in known if execution.name.startswith(prefix) and execution.name != name]
    newer = [execution for execution in others if mine and _time(execution.name) > mine]
    return Order(
        name=name,
        twice=any(execution.name == name for execution in known),
        overtaken_by=max((execution.name for execution in newer), key=_time, default=None),
        outdated=tuple(execution for execution in others if execution.running and execution not in newer),
    )


def signed_at(event: Mapping[str, Any]) -> int:
    """When the ResponseURL was signed, seconds since the epoch: SigV4's date, or the older form's expiry, 0 if neither.

    Both are used to compare events of one resource, which come from one signer, and for nothing else.
    """
    query = parse_qs(urlsplit(str(event.get("ResponseURL", ""))).query)
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
