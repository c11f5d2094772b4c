"""The resources beside the cluster's, which wait where CloudFormation no longer waits for that one.

`Custom::ParallelClusterWait` stands behind the cluster and looks at the execution that works on it;
`Custom::ParallelClusterGone` stands before it and is deleted after it. The decision record on operations of more than
an hour says why.
"""

from collections.abc import Callable
from dataclasses import replace

from cluster_resource import identity, verdicts
from cluster_resource.api import ApiTrouble, ClusterApi
from cluster_resource.aws import UNKNOWN, Aws
from cluster_resource.configuration import ConfigurationError
from cluster_resource.decide import STEADY
from cluster_resource.identity import OWNER_TAG
from cluster_resource.properties import Place, owner_property, place_of, request_of, waits_behind
from cluster_resource.response import room_for_reason
from cluster_resource.work_item import Verdict, Work

_NOTHING_TO_DO = "There is nothing to do."
_AT_REST = (*STEADY, "UPDATE_FAILED")


def idle(work: Work) -> Work:
    """An event that asks nothing of the resource."""
    return replace(work, verdict=Verdict("SUCCESS", work.physical_id, _NOTHING_TO_DO))


def frozen(work: Work, owner: str, api_for: Callable[[Place], ClusterApi]) -> Work:
    """A cluster that stays as it is until another has taken over: it is looked at, and nothing else.

    Raises:
        ApiTrouble: the API did not say; the state machine asks again.
    """
    place = place_of(work.event)
    view = api_for(place).describe(place.cluster_name)
    if view and view.tags.get(OWNER_TAG) == owner:
        verdict = Verdict("SUCCESS", work.physical_id, "", verdicts.attributes(view, work.execution))
        return replace(work, verdict=replace(verdict, reason=f"The cluster is {view}, and was left as it is."))
    if work.operation == "update" and view is None:
        data = verdicts.without_cluster(place.cluster_name, work.execution)
        gone = Verdict("SUCCESS", work.physical_id, "The cluster does not exist any more; nothing was made.", data)
        return replace(work, verdict=gone)
    failed = _failed(
        work,
        f"There is no cluster {place.cluster_name} of this stack that could be kept. To do: let cluster.predecessor be"
        " the name that the cluster had when it was last deployed.",
    )
    if failed.verdict is None or work.operation == "update":
        return failed
    return replace(failed, verdict=replace(failed.verdict, physical_id=identity.not_created_id(place.cluster_name)))


def own_id(event_kind: str, stack_id: str, logical_id: str) -> str:
    return identity.physical_id(event_kind, stack_id, logical_id)


def wait(work: Work, now: float, aws: Aws, api_for: Callable[[Place], ClusterApi]) -> Work:
    """One look at the execution; the verdict when it has ended, or when this resource's window has."""
    arn = _execution_of(work)
    execution = aws.execution(arn)
    status = execution.status if execution else "SUCCEEDED"
    if status == "SUCCEEDED":
        return _ended(work, now, api_for)
    if status in ("RUNNING", "PENDING_REDRIVE", UNKNOWN):
        return _still_running(work, now)
    if status == "ABORTED":
        cause = "a later event of the cluster took its place"
    else:
        cause = (
            execution.cause if execution else ""
        ) or "it gave no reason; its log group is that of the state machine"
    return _failed(work, f"The work on the cluster ended as {status}: {cause}")


def _ended(work: Work, now: float, api_for: Callable[[Place], ClusterApi]) -> Work:
    """The cluster as it is at the end; the execution itself may be so old that nobody remembers it."""
    place = place_of(work.event)
    try:
        view = api_for(place).describe(place.cluster_name)
    except ApiTrouble as error:
        if now < work.deadline:
            return replace(work, progress=replace(work.progress, note=f"the API could not be reached ({error})"))
        return _failed(work, f"The cluster {place.cluster_name} could not be described: {error}")
    if view is None or view.tags.get(OWNER_TAG) != owner_property(work.event) or view.status not in _AT_REST:
        return _failed(work, f"The cluster {place.cluster_name} is {view or 'gone'}, and no work on it is known.")
    verdict = Verdict("SUCCESS", work.physical_id, "", verdicts.attributes(view, _execution_of(work)))
    return replace(work, verdict=replace(verdict, reason=f"The cluster is {view}."))


def _still_running(work: Work, now: float) -> Work:
    if now < work.deadline:
        return work
    place = place_of(work.event)
    if waits_behind(work.event) == 0:
        return _failed(work, f"The work on the cluster {place.cluster_name} goes on past its time limit.")
    verdict = verdicts.early(work, place.cluster_name)
    return replace(work, verdict=verdict)


def _failed(work: Work, reason: str) -> Work:
    empty = Verdict("FAILED", work.physical_id, "")
    return replace(work, verdict=replace(empty, reason=room_for_reason(work.event, empty).cut(reason, "")))


def _execution_of(work: Work) -> str:
    arn = (work.event.get("ResourceProperties") or {}).get("Execution")
    if not isinstance(arn, str) or not arn:
        raise ConfigurationError(f"The property Execution of {request_of(work.event).logical_id} is missing.")
    return arn
