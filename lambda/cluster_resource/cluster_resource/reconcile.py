"""The steps `begin` and `poll` of the state machine: what an event means, and one turn towards it.

A turn describes the cluster, decides, makes at most one call that changes something, and records the result.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cluster_resource import api_calls, decide, outcomes, response, waiters
from cluster_resource.api import ApiAccessError, ApiError, ApiTrouble, ApiUnknownError, ClusterApi, ClusterView
from cluster_resource.aws import Aws
from cluster_resource.decide import Create, Decision, Delete, Fail, Replace, Succeed, Update, Verify, Wait, Wanted
from cluster_resource.operation import Kind, Operation, Progress, Verdict, epoch_seconds
from cluster_resource.outcomes import Turn
from cluster_resource.policies import Policy
from cluster_resource.request import GONE_TYPE, WAIT_TYPE, Place, Request

_LOG = logging.getLogger(__name__)
_Decide = Callable[[ClusterView | None, Progress, Wanted], Decision]
_DECIDE: Mapping[Kind, _Decide] = {
    "create": decide.decide_create,
    "update": decide.decide_update,
    "delete": decide.decide_delete,
}
# A delete that another resource waits for is handed on at the end of the window; it fails only if that is impossible.
_GRACE_SECONDS = 60
_MAX_LEFTOVER_TRIES = 7  # at 20 s a poll: two minutes


@dataclass(frozen=True)
class Clients:
    """What the steps call: the API of a cluster, and AWS."""

    api_for: Callable[[Place], ClusterApi]
    aws: Aws


def begin(request: Request, started: str, now: float, clients: Clients, execution: str = "") -> Operation:
    """The first step.

    Raises:
        ConfigurationError: a property is missing or wrong; `failures.without_outcome` answers for that.
    """
    if request.resource_type in (WAIT_TYPE, GONE_TYPE):
        return _begin_waiter(request, started, now, clients, execution)
    if request.type == "Delete" and request.never_created:
        operation = Operation(request.event, started, "delete", request.physical_id or "", execution=execution)
        why = "The cluster was never created; there is nothing to delete."
        return operation.decided(response.success(operation, None, why))
    kind, name = _kind(request)
    own_id = request.own_id(name)
    given_id = request.physical_id or own_id
    operation = Operation(request.event, started, kind, own_id if kind == "create" else given_id, execution=execution)
    if kind != "delete" and request.frozen:
        return waiters.frozen(replace(operation, physical_id=given_id), clients.api_for)
    if kind != "delete":
        _ = request.cluster  # wrong properties fail here, before any call
    status = clients.aws.stack_status(request.stack_id) if request.type != "Create" else ""
    rollback = None if status is None else "ROLLBACK" in status
    clean_up = request.type == "Delete" and (status is None or (status.startswith("UPDATE") and not rollback))
    # After a failed rename, the event goes back to the cluster that the physical id still names.
    going_back = request.type == "Update" and request.cluster_of_id == name and request.old_name != name
    progress = Progress(leftover=request.old_name if going_back else None, rollback=rollback, clean_up=clean_up)
    operation = replace(operation, progress=progress)
    return step(_timed(operation, name), now, clients)


def step(operation: Operation, now: float, clients: Clients) -> Operation:
    """One turn of an operation."""
    if operation.kind == "wait":
        return waiters.wait(operation, now, clients.aws, clients.api_for)
    turn = _turn(operation, now, clients)
    gone = operation.request.resource_type == GONE_TYPE
    try:
        done = reconcile(turn, decide.decide_gone if gone else _DECIDE[operation.kind])
    except ApiAccessError as error:
        done = outcomes.no_access(turn, error)
    except ApiUnknownError as error:
        done = outcomes.retry(turn, error)
    except ApiError as error:
        what = f"The ParallelCluster API refused to describe the cluster {turn.name}."
        throttled = error.http_status == 429
        done = outcomes.retry(turn, error) if throttled else outcomes.refused(turn, error, touched=True, what=what)
    return _handed_on(done, turn)


def reconcile(turn: Turn, decide_kind: _Decide) -> Operation:
    progress = turn.operation.progress
    turn.progress(looks=progress.looks + 1)
    if progress.leftover and not _drop_leftover(turn, progress.leftover):
        return outcomes.wait(turn, turn.operation.progress.note)
    turn.view = turn.api.describe(turn.name)
    turn.seen = str(turn.view or "no such cluster")
    decision = turn.in_time(decide_kind(turn.view, turn.operation.progress, turn.wanted))
    _LOG.info("%s %s: seen %s, decided %s", turn.operation.kind, turn.name, turn.seen, decision)
    turn.progress(refusals=0)
    if isinstance(decision, Create | Update | Replace) and (wrong := _wrong_api_version(turn)):
        return outcomes.finish(turn, wrong)
    try:
        return _carry_out(turn, decision)
    except ApiUnknownError as error:
        # Of a read or a dry run: api_calls handles the calls that it does not repeat.
        return outcomes.unknown(turn, error)


def _carry_out(turn: Turn, decision: Decision) -> Operation:  # noqa: PLR0911 - one return a decision
    match decision:
        case Succeed() if turn.operation.kind != "delete":
            return api_calls.stabilize(turn, decision)
        case Succeed() | Fail():
            return outcomes.finish(turn, decision)
        case Wait(why):
            return turn.progress(note=why)
        case Create() | Delete() if protected := api_calls.protect_old_cluster(turn):
            return protected
        case Update():
            return api_calls.update(turn)
        case Replace(why):
            return api_calls.replace_cluster(turn, why)
        case Verify():
            return api_calls.verify(turn)
        case _:
            return api_calls.call(turn, decision)


def _begin_waiter(request: Request, started: str, now: float, clients: Clients, execution: str) -> Operation:
    waits = request.resource_type == WAIT_TYPE
    identifier = request.physical_id or request.own_id("wait" if waits else "gone")
    window = epoch_seconds(started) + request.timing.answer_minutes * 60
    kind: Kind = "wait" if waits else "delete"
    operation = Operation(
        request.event, started, kind, identifier, deadline=window, answer_by=window, execution=execution
    )
    if waits == (request.type == "Delete"):
        return operation.decided(Verdict("SUCCESS", identifier, "There is nothing to do."))
    return step(operation, now, clients)


def _timed(operation: Operation, name: str) -> Operation:
    """The operation with its time limit, and the time by which CloudFormation must have an answer."""
    begun, timing = epoch_seconds(operation.started), operation.request.timing
    answer_by, limit = begun + timing.answer_minutes * 60, begun + timing.timeout_minutes * 60
    if not _another_resource_waits(operation, name):
        limit = min(limit, answer_by)
    elif operation.kind == "delete":
        limit = answer_by + _GRACE_SECONDS
    return replace(operation, deadline=limit, answer_by=answer_by)


def _another_resource_waits(operation: Operation, name: str) -> bool:
    """Whether another resource waits for the end after an early answer of this one.

    Not in a rollback, where CloudFormation only continues with the resources that it had begun to change; nor in the
    delete of the old cluster after a rename, because only a delete of the stack continues with the resources before.
    """
    timing = operation.request.timing
    if operation.kind == "delete":
        return timing.waits_before > 0 and operation.request.claimed_name == name
    return timing.waits_behind > 0 and operation.progress.rollback is False


def _kind(request: Request) -> tuple[Kind, str]:
    """What an event means, and for which cluster."""
    name = request.place.cluster_name
    if request.type == "Create":
        return "create", name
    if request.type == "Delete":
        # After a rename, CloudFormation deletes the old physical id: that id, not the properties, names the cluster.
        return "delete", request.cluster_of_id or name
    return ("update" if (request.cluster_of_id or request.old_name) == name else "create"), name


def _drop_leftover(turn: Turn, name: str) -> bool:
    """Request the delete of a leftover that this resource owns, and do not wait for its end. False: try again later."""
    view = turn.api.describe(name)
    progress = turn.operation.progress
    if not view and progress.rollback is not False and decide.cluster_may_appear(progress):
        turn.progress(note=f"the rename that is rolled back may still make the cluster {name}")
        return False
    if not view or not decide.is_ours(view, turn.wanted) or view.status == "DELETE_IN_PROGRESS":
        turn.progress(leftover=None)
        return True
    try:
        turn.api.delete(name)
    except ApiTrouble as error:
        if not (isinstance(error, ApiError) and error.http_status == 404):
            tries = progress.leftover_tries + 1
            _LOG.warning("The cluster %s, left by a failed rename, could not be deleted (%d): %s", name, tries, error)
            turn.progress(leftover_tries=tries, note=f"the cluster {name}, left by a failed rename, is to be deleted")
            if tries < _MAX_LEFTOVER_TRIES:
                return False
            turn.progress(left_behind=name)
    turn.progress(leftover=None)
    return True


def _wrong_api_version(turn: Turn) -> Fail | None:
    """The failure if the API has another version than wanted; not every API shows its version."""
    if turn.operation.progress.api_checked or not turn.properties:
        return None
    try:
        version = turn.api.api_version(turn.properties.os)
    except ApiTrouble as error:
        _LOG.warning("The API's version could not be found out: %s", error)
        version = None
    wrong = api_calls.wrong_version(turn, version or "")
    turn.progress(api_checked=wrong is None)
    return wrong


def _handed_on(operation: Operation, turn: Turn) -> Operation:
    """A delete in progress at the end of the window is left to the resource that CloudFormation deletes next."""
    deleting = operation.kind == "delete" and turn.view is not None and turn.view.status == "DELETE_IN_PROGRESS"
    if not deleting or turn.now < operation.answer_by or not _another_resource_waits(operation, turn.name):
        return operation
    why = f"The cluster {turn.name} is being deleted; another resource waits for the end of it."
    return operation.decided(response.success(operation, None, why))


def _turn(operation: Operation, now: float, clients: Clients) -> Turn:
    request, rollback = operation.request, bool(operation.progress.rollback)
    api = clients.api_for(request.place)
    if request.resource_type == GONE_TYPE:
        wanted = Wanted(request.place.cluster_name, request.text("Owner"), "")
        return Turn(api, clients.aws, operation, wanted, Policy(), now)
    properties = request.cluster if operation.kind != "delete" else None
    policy = request.policy(rollback=rollback and request.type == "Update")
    wanted = Wanted(
        name=_kind(request)[1],
        owner=request.owner,
        version=properties.api_version if properties else "",
        unchanged=request.unchanged(rollback=rollback),
        may_replace=policy.replace,
        # The Create was cancelled before its answer. At the time limit, a cluster that does not exist is deleted.
        may_appear=request.cluster_of_id is None and now < operation.deadline,
    )
    return Turn(api, clients.aws, operation, wanted, policy, now, properties)
