"""The steps `begin` and `poll`: what an event means, and one turn of the work on it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cluster_resource import decide, identity, report, verdicts
from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError, ClusterApi
from cluster_resource.decide import Fail, Wanted
from cluster_resource.properties import (
    ClusterProperties,
    claimed_name,
    configuration_unchanged,
    properties_of,
    request_of,
)
from cluster_resource.turn import DecideOperation, Turn
from cluster_resource.work_item import Operation, Progress, Work, epoch_seconds

_DECIDE: Mapping[Operation, DecideOperation] = {
    "create": decide.decide_create,
    "update": decide.decide_update,
    "delete": decide.decide_delete,
}

ApiFactory = Callable[[ClusterProperties], ClusterApi]


def begin(event: dict[str, Any], started: str, now: float, api_for: ApiFactory) -> Work:
    """The first step.

    Raises:
        ConfigurationError: the event's properties are not what they must be; `failed_verdict` answers for that.
    """
    request = request_of(event)
    if request.type == "Delete" and identity.was_never_created(request.physical_id or ""):
        work = Work(event, started, 0, "delete", request.physical_id or "")
        return replace(
            work, verdict=verdicts.success(work, None, "The cluster was never created; there is nothing to delete.")
        )
    properties = properties_of(event)
    operation, name = _operation(event, properties.cluster_name)
    own_id = identity.physical_id(name, request.stack_id, request.logical_id)
    work = Work(
        event=event,
        started=started,
        deadline=epoch_seconds(started) + properties.timeout_minutes * 60,
        operation=operation,
        physical_id=own_id if operation == "create" else (request.physical_id or own_id),
        progress=Progress(leftover=_leftover(event, name)),
    )
    return step(work, now, api_for)


def _operation(event: Mapping[str, Any], name: str) -> tuple[Operation, str]:
    """What an event means, and for which cluster."""
    request = request_of(event)
    if request.type == "Create":
        return "create", name
    named = identity.cluster_named_by(request.physical_id or "", request.stack_id, request.logical_id)
    if request.type == "Delete":
        # After a rename, CloudFormation deletes the old physical id: that id, not the properties, names the cluster.
        return "delete", named or name
    return ("update" if (named or claimed_name(event, old=True)) == name else "create"), name


def _leftover(event: Mapping[str, Any], name: str) -> str | None:
    """What a failed rename left: the event goes back to the cluster that this resource still is."""
    request = request_of(event)
    named = identity.cluster_named_by(request.physical_id or "", request.stack_id, request.logical_id)
    old_name = claimed_name(event, old=True)
    return old_name if request.type == "Update" and named == name and old_name != name else None


def step(work: Work, now: float, api_for: ApiFactory) -> Work:
    """One look, one decision, at most one call that changes something."""
    properties = properties_of(work.event)
    request = request_of(work.event)
    operation, name = _operation(work.event, properties.cluster_name)
    unchanged = request.type == "Update" and configuration_unchanged(work.event)
    wanted = Wanted(name, request.owner, properties.api_version, unchanged)
    turn = Turn(api_for(properties), work, properties, wanted, now)
    try:
        return turn.take(_DECIDE[operation])
    except ApiAccessError as error:
        return turn.refused(error)
    except ApiUnknownError as error:
        return turn.blind(error)
    except ApiError as error:
        if error.http_status == 429:
            return turn.blind(error)
        return turn.finish(
            Fail(f"The ParallelCluster API refused to describe the cluster {name}.", report.refusal_todo(error)),
            details=report.refusal(error),
        )
