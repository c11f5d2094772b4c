"""How a turn fails: what is said, and under which physical id."""

from dataclasses import replace

from cluster_resource import decide, identity, report
from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError
from cluster_resource.decide import Fail
from cluster_resource.properties import Place, request_of
from cluster_resource.response import room_for_reason
from cluster_resource.turn import Turn
from cluster_resource.work_item import Verdict, Work


def unlike_version(api_url: str, version: str, wanted: str) -> Fail:
    return Fail(
        f"The API at {api_url} makes clusters of ParallelCluster {version}, where {wanted} is wanted.",
        "Point the environment at an API of that version, or ask for the version of the API.",
        touched=False,
    )


def no_answer(work: Work, name: str, error: ApiUnknownError, seen: str) -> Fail:
    return Fail(
        f"The ParallelCluster API did not carry out the {work.operation} of the cluster {name} in"
        f" {work.progress.unknown_calls} attempts; the last answer: {error}. The cluster: {seen}.",
        "Look into the log group of the ParallelCluster API's function, then deploy again.",
    )


def refused(work: Work, name: str, error: ApiError, *, touched: bool) -> Fail:
    return Fail(
        f"The ParallelCluster API refused the {work.operation} of the cluster {name} (HTTP {error.http_status}).",
        report.refusal_todo(error),
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


def verdict(turn: Turn, fail: Fail, details: tuple[str, ...]) -> Verdict:
    """The whole report of a failure, logged, and cut to what CloudFormation takes."""
    view = turn.view
    events = report.stack_failures(turn.api, turn.aws, turn.name) if fail.events and view else ()
    failure = report.Report(
        what=fail.what,
        todo=_todo(turn, fail),
        details=(*details, *(report.cluster_failures(view) if view else ()), *events),
        cluster_logs=report.cluster_logs(turn.api, turn.name) if fail.events and view else "",
    )
    failure.log()
    empty = Verdict("FAILED", _failed_id(turn, fail), "")
    return replace(empty, reason=failure.text(room_for_reason(turn.work.event, empty)))


def _todo(turn: Turn, fail: Fail) -> str:
    todo = fail.todo if fail.todo.startswith("To do:") else f"To do: {fail.todo}"
    if not turn.policy.rollback:
        return todo
    stack = request_of(turn.work.event).stack_id
    return f"{todo} This was a rollback: go on by `aws cloudformation continue-update-rollback --stack-name {stack}`."


def _failed_id(turn: Turn, fail: Fail) -> str:
    """A failed rename keeps the id of the old cluster; a creation that made nothing says so."""
    work = turn.work
    request = request_of(work.event)
    if work.operation != "create" or request.type == "Update":
        return request.physical_id or work.physical_id
    ours = turn.view is not None and decide.is_ours(turn.view, turn.wanted)
    # Where a creation was sent, its Delete must look for a cluster; it touches none without our tag.
    made = work.progress.asked != "nothing" or work.progress.clearing or (fail.touched and ours)
    return work.physical_id if made else identity.not_created_id(turn.name)
