"""The two waiting resources, for operations of more than an hour, and clusters that stay unchanged.

`Custom::ParallelClusterWait` comes after the cluster and watches the execution that works on it;
`Custom::ParallelClusterGone` comes before it and is deleted after it. The reasons are in
docs/decisions/0005-longer-than-an-hour.md.
"""

from collections.abc import Callable
from dataclasses import replace

from cluster_resource import failures, response
from cluster_resource.api import ApiTrouble, ClusterApi
from cluster_resource.aws import UNKNOWN, Aws
from cluster_resource.decide import STEADY
from cluster_resource.operation import Operation, Status, Verdict
from cluster_resource.request import Place

_AT_REST = (*STEADY, "UPDATE_FAILED")


def frozen(operation: Operation, api_for: Callable[[Place], ClusterApi]) -> Operation:
    """A cluster that stays as it is until its successor takes over: it is only described.

    Raises:
        ApiTrouble: the API did not answer; the state machine repeats the step.
    """
    request, place = operation.request, operation.request.place
    view = api_for(place).describe(place.cluster_name)
    if view and view.owner == request.owner:
        data = response.attributes(view.name, operation.execution, view)
        return _decided(operation, "SUCCESS", f"The cluster is {view}, and was left as it is.", data)
    if operation.kind == "update" and view is None:
        data = response.attributes(place.cluster_name, operation.execution)
        return _decided(operation, "SUCCESS", "The cluster does not exist any more; nothing was made.", data)
    if operation.kind != "update":
        operation = replace(operation, physical_id=failures.not_created_id(place.cluster_name))
    return _decided(
        operation,
        "FAILED",
        f"There is no cluster {place.cluster_name} of this stack that could be kept. To do: set cluster.predecessor to"
        " the name that the cluster had when it was last deployed.",
    )


def wait(operation: Operation, now: float, aws: Aws, api_for: Callable[[Place], ClusterApi]) -> Operation:
    """One look at the execution; a verdict when it has ended, or at the end of this resource's window."""
    execution = aws.execution(operation.request.text("Execution"))
    status = execution.status if execution else "SUCCEEDED"
    if status == "SUCCEEDED":
        return _ended(operation, now, api_for)
    if status in ("RUNNING", "PENDING_REDRIVE", UNKNOWN):
        name = operation.request.place.cluster_name
        if now < operation.deadline:
            return operation
        if operation.request.timing.waits_behind == 0:
            return _decided(operation, "FAILED", f"The work on the cluster {name} goes on past its time limit.")
        return operation.decided(response.early(operation, name))
    cause = (execution and execution.cause) or "it gave no reason; its log group is that of the state machine"
    if status == "ABORTED":
        cause = "a later event of the cluster took its place"
    return _decided(operation, "FAILED", f"The work on the cluster ended as {status}: {cause}")


def _ended(operation: Operation, now: float, api_for: Callable[[Place], ClusterApi]) -> Operation:
    """The verdict from the cluster itself; the execution may be too old for Step Functions to know."""
    place = operation.request.place
    try:
        view = api_for(place).describe(place.cluster_name)
    except ApiTrouble as error:
        if now < operation.deadline:
            note = f"a call to the API failed ({error})"
            return replace(operation, progress=replace(operation.progress, note=note))
        return _decided(operation, "FAILED", f"The cluster {place.cluster_name} could not be described: {error}")
    if view is None or view.owner != operation.request.text("Owner") or view.status not in _AT_REST:
        return _decided(
            operation, "FAILED", f"The cluster {place.cluster_name} is {view or 'gone'}, and no work on it is known."
        )
    data = response.attributes(view.name, operation.request.text("Execution"), view)
    return _decided(operation, "SUCCESS", f"The cluster is {view}.", data)


def _decided(operation: Operation, status: Status, reason: str, data: dict[str, str] | None = None) -> Operation:
    return operation.decided(Verdict(status, operation.physical_id, reason, data or {}))
