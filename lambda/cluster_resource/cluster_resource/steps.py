"""The steps `begin` and `poll`: what an event means, and one turn of the work on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import beside, decide, ending, identity, report, verdicts
from cluster_resource import properties as given
from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError, ClusterApi
from cluster_resource.aws import Aws
from cluster_resource.decide import Fail, Wanted
from cluster_resource.policy import policy_of
from cluster_resource.properties import GONE_TYPE, WAIT_TYPE, Place, claimed_name, request_of
from cluster_resource.taking import DecideOperation, take
from cluster_resource.turn import Turn
from cluster_resource.work_item import Operation, Progress, Work, epoch_seconds

_DECIDE: Mapping[Operation, DecideOperation] = {
    "create": decide.decide_create,
    "update": decide.decide_update,
    "delete": decide.decide_delete,
}
_ROLLBACK = "ROLLBACK"
# A deletion that another resource waits for is handed on at the end of the window, and fails only if it cannot be.
_GRACE_SECONDS = 60


@dataclass(frozen=True)
class Outside:
    """All that the steps reach: the API of a cluster, and AWS."""

    api_for: Callable[[Place], ClusterApi]
    aws: Aws


def begin(event: dict[str, Any], started: str, now: float, outside: Outside, execution: str = "") -> Work:
    """The first step.

    Raises:
        ConfigurationError: the event's properties are not what they must be; `failed_verdict` answers for that.
    """
    request = request_of(event)
    if request.resource_type in (WAIT_TYPE, GONE_TYPE):
        return _begin_beside(event, started, now, outside, execution)
    if request.type == "Delete" and identity.was_never_created(request.physical_id or ""):
        work = Work(event, started, 0, "delete", request.physical_id or "", execution=execution)
        why = "The cluster was never created; there is nothing to delete."
        return replace(work, verdict=verdicts.success(work, None, why))
    place = given.place_of(event)
    operation, name = _operation(event, place.cluster_name)
    if operation != "delete" and given.is_frozen(event):
        own_id = identity.physical_id(name, request.stack_id, request.logical_id)
        frozen = Work(event, started, 0, operation, request.physical_id or own_id, execution=execution)
        return beside.frozen(frozen, request.owner, outside.api_for)
    if operation != "delete":
        given.properties_of(event)
    rollback = _is_rollback(event, outside.aws) if request.type == "Update" else False
    own_id = identity.physical_id(name, request.stack_id, request.logical_id)
    work = Work(
        event=event,
        started=started,
        deadline=0,
        operation=operation,
        physical_id=own_id if operation == "create" else (request.physical_id or own_id),
        progress=Progress(leftover=_leftover(event, name), rollback=rollback),
        execution=execution,
    )
    return step(_timed(work, name), now, outside)


def _timed(work: Work, name: str) -> Work:
    """Until when this may take, and until when CloudFormation must hear of it."""
    begun = epoch_seconds(work.started)
    answer_by = begun + given.answer_minutes(work.event) * 60
    limit = begun + given.timeout_minutes(work.event) * 60
    if not _somebody_waits(work, name):
        limit = min(limit, answer_by)
    elif work.operation == "delete":
        limit = answer_by + _GRACE_SECONDS
    return replace(work, deadline=limit, answer_by=answer_by)


def _somebody_waits(work: Work, name: str) -> bool:
    """Whether another resource waits on when this one has answered for the time being.

    Not in a rollback, where CloudFormation turns to those resources only that it had begun to change; nor in the
    deletion of the old cluster after a rename, since only the deletion of the stack goes on to what stands before.
    """
    if work.operation == "delete":
        return given.waits_before(work.event) > 0 and claimed_name(work.event) == name
    return given.waits_behind(work.event) > 0 and work.progress.rollback is False


def _is_rollback(event: Mapping[str, Any], aws: Aws) -> bool | None:
    status = aws.stack_status(request_of(event).stack_id)
    return None if status is None else _ROLLBACK in status


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


def _is_unchanged(event: Mapping[str, Any], *, rollback: bool) -> bool:
    """A frozen cluster was not touched, so the way back from there has nothing to do."""
    return given.configuration_unchanged(event) or (rollback and given.is_frozen(event, old=True))


def _leftover(event: Mapping[str, Any], name: str) -> str | None:
    """What a failed rename left: the event goes back to the cluster that this resource still is."""
    request = request_of(event)
    named = identity.cluster_named_by(request.physical_id or "", request.stack_id, request.logical_id)
    old_name = claimed_name(event, old=True)
    return old_name if request.type == "Update" and named == name and old_name != name else None


def _begin_beside(event: dict[str, Any], started: str, now: float, outside: Outside, execution: str) -> Work:
    request = request_of(event)
    waits = request.resource_type == WAIT_TYPE
    own_id = beside.own_id("wait" if waits else "gone", request.stack_id, request.logical_id)
    window = epoch_seconds(started) + given.answer_minutes(event) * 60
    work = Work(
        event=event,
        started=started,
        deadline=window,
        operation="wait" if waits else "delete",
        physical_id=request.physical_id or own_id,
        answer_by=window,
        execution=execution,
    )
    if waits == (request.type == "Delete"):
        return beside.idle(work)
    return step(work, now, outside)


def step(work: Work, now: float, outside: Outside) -> Work:
    """One look, one decision, at most one call that changes something."""
    if work.operation == "wait":
        return beside.wait(work, now, outside.aws, outside.api_for)
    turn = _turn(work, now, outside)
    try:
        gone = request_of(work.event).resource_type == GONE_TYPE
        done = take(turn, decide.decide_gone if gone else _DECIDE[work.operation])
    except ApiAccessError as error:
        done = ending.no_access(turn, error)
    except ApiUnknownError as error:
        done = ending.blind(turn, error)
    except ApiError as error:
        if error.http_status == 429:
            done = ending.blind(turn, error)
        else:
            what = f"The ParallelCluster API refused to tell about the cluster {turn.name}."
            done = ending.finish(turn, Fail(what, report.refusal_todo(error)), details=report.refusal(error))
    return _handed_on(done, turn)


def _handed_on(work: Work, turn: Turn) -> Work:
    """A deletion that is under way at the end of the window is left to the resource that is deleted next."""
    if work.operation != "delete" or turn.now < work.answer_by or not _somebody_waits(work, turn.name):
        return work
    if not turn.view or turn.view.status != "DELETE_IN_PROGRESS":
        return work
    why = f"The cluster {turn.name} is being deleted; another resource waits for the end of it."
    return replace(work, verdict=verdicts.success(work, None, why))


def _turn(work: Work, now: float, outside: Outside) -> Turn:
    event, request = work.event, request_of(work.event)
    place = given.place_of(event)
    rollback = bool(work.progress.rollback)
    if request.resource_type == GONE_TYPE:
        wanted = Wanted(place.cluster_name, given.owner_property(event), "")
        return Turn(outside.api_for(place), outside.aws, work, place, wanted, policy_of({}, rollback=False), now)
    _, name = _operation(event, place.cluster_name)
    properties = given.properties_of(event) if work.operation != "delete" else None
    policy = policy_of(event, rollback=rollback) if properties else policy_of({}, rollback=False)
    wanted = Wanted(
        name=name,
        owner=request.owner,
        version=properties.api_version if properties else "",
        unchanged=request.type == "Update" and _is_unchanged(event, rollback=rollback),
        may_replace=policy.replace,
    )
    return Turn(outside.api_for(place), outside.aws, work, place, wanted, policy, now, properties)


def early(work: Work) -> Work:
    """The work as it goes on when CloudFormation has its answer for the time being."""
    return replace(work, handed_over=True)
