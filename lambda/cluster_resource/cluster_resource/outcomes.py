"""How one turn ends: with a verdict, or with another look later."""

import logging
from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import decide, failures, policies, response
from cluster_resource.api import ApiAccessError, ApiError, ApiTrouble, ApiUnknownError, ClusterApi, ClusterView
from cluster_resource.aws import Aws
from cluster_resource.decide import Create, Decision, Fail, Succeed, Update, Wait, Wanted
from cluster_resource.operation import Operation, Verdict
from cluster_resource.policies import Policy
from cluster_resource.request import ClusterProperties

_LOG = logging.getLogger(__name__)
_MAX_UNKNOWN_CALLS = 5
_MAX_REFUSALS = 7  # at 20 s a poll: two minutes for a new role to become visible everywhere


@dataclass
class Turn:
    """One look at the cluster, one decision, at most one call that changes something."""

    api: ClusterApi
    aws: Aws
    operation: Operation
    wanted: Wanted
    policy: Policy
    now: float
    properties: ClusterProperties | None = None
    view: ClusterView | None = None
    seen: str = "not yet"

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def text(self) -> str:
        return self.properties.configuration_text if self.properties else ""

    def in_time(self, decision: Decision) -> Decision:
        deadline, note = self.operation.deadline, self.operation.progress.note
        return decide.decide_poll(
            decision, now=self.now, deadline=deadline, wanted=self.wanted, seen=self.seen, note=note
        )

    def progress(self, **changes: Any) -> Operation:  # noqa: ANN401 - the fields of Progress
        self.operation = replace(self.operation, progress=replace(self.operation.progress, **changes))
        return self.operation


def finish(turn: Turn, decision: Succeed | Fail, details: tuple[str, ...] = ()) -> Operation:
    behind = turn.operation.progress.left_behind
    lost = f"The cluster {behind}, left by a failed rename, could not be deleted: delete it, it costs money."
    warnings = (lost,) if behind else ()
    if isinstance(decision, Succeed):
        verdict = response.success(turn.operation, turn.view, " ".join((decision.why, *warnings)))
    else:
        verdict = _failure(turn, decision, (*_start_fleet_again(turn), *warnings, *details))
    turn.operation = turn.operation.decided(verdict)
    return turn.operation


def wait(turn: Turn, why: str) -> Operation:
    """Look again later; past the deadline, fail."""
    decision = turn.in_time(Wait(why))
    return finish(turn, decision) if isinstance(decision, Fail) else turn.progress(note=why)


def unknown(turn: Turn, error: ApiUnknownError, sent: Create | Update | None = None) -> Operation:
    """`sent`: the decision whose own call may have been carried out."""
    before = turn.operation.progress
    calls = before.unknown_calls + 1
    turn.progress(
        asked="unknown" if sent else before.asked,
        unknown_calls=calls,
        note=f"a call had no clear answer ({error})",
    )
    _LOG.warning("%s: no clear answer (%d): %s", turn.name, calls, error)
    if calls < _MAX_UNKNOWN_CALLS:
        return turn.operation
    fail = Fail(
        f"The ParallelCluster API did not carry out the {turn.operation.kind} of the cluster {turn.name} in"
        f" {calls} attempts; the last answer: {error}. The cluster: {turn.seen}.",
        "Look at the log group of the ParallelCluster API's function, then deploy again.",
    )
    return finish(turn, fail)


def retry(turn: Turn, error: ApiTrouble) -> Operation:
    """A call failed: try again until the time limit."""
    _LOG.warning("%s: %s", turn.name, error)
    return wait(turn, f"a call to the API failed ({error})")


def no_access(turn: Turn, error: ApiAccessError) -> Operation:
    refusals = turn.operation.progress.refusals + 1
    _LOG.warning("%s: %s", turn.name, error)
    turn.progress(refusals=refusals, note=str(error))
    if refusals < _MAX_REFUSALS and turn.now < turn.operation.deadline:
        return turn.operation
    place = turn.operation.request.place
    fail = Fail(
        f"The ParallelCluster API could not be called: {error}.",
        f"Check that this function may assume {place.api_user_role_arn}, and that the role may call {place.api_url}.",
    )
    return finish(turn, fail)


def refused(turn: Turn, error: ApiError, *, touched: bool, what: str = "", details: tuple[str, ...] = ()) -> Operation:
    """`what`: the report's first line, if the API refused something else than the operation."""
    what = what or (
        f"The ParallelCluster API refused the {turn.operation.kind} of the cluster {turn.name}"
        f" (HTTP {error.http_status})."
    )
    fail = Fail(what, policies.advice(error.refused), touched=touched)
    return finish(turn, fail, details=details or failures.refusal_lines(error))


def _start_fleet_again(turn: Turn) -> tuple[str, ...]:
    """After a failure: start the fleet that this execution stopped. Returns lines for the report."""
    if turn.operation.progress.fleet != "stopped":
        return ()
    try:
        turn.api.request_fleet(turn.name, running=True)
    except ApiTrouble as error:
        return (f"The compute fleet was stopped for the update and could not be started again: {error}",)
    return ("The compute fleet was stopped for the update; its start was requested again.",)


def _failure(turn: Turn, fail: Fail, details: tuple[str, ...]) -> Verdict:
    view = turn.view
    todo = f"To do: {fail.todo}"
    if turn.policy.rollback:
        stack = turn.operation.request.stack_id
        todo += f" This was a rollback: go on by `aws cloudformation continue-update-rollback --stack-name {stack}`."
    advice = [todo]
    if view:
        details += tuple(f"{code}: {reason}" for code, reason in view.failures)
    if view and fail.events:
        details += failures.stack_failures(turn.api, turn.aws, turn.name)
        advice.append(failures.cluster_logs(turn.api, turn.name))
    verdict = Verdict("FAILED", _failed_id(turn, fail), "")
    return failures.report(turn.operation.request, verdict, fail.what, details, *advice)


def _failed_id(turn: Turn, fail: Fail) -> str:
    """A failed rename keeps the id of the old cluster; a create that made no cluster has an id that says so."""
    operation = turn.operation
    if operation.kind != "create" or operation.request.type == "Update":
        return operation.request.physical_id or operation.physical_id
    ours = turn.view is not None and decide.is_ours(turn.view, turn.wanted)
    # If a create was sent, the Delete that follows must look for a cluster; it only deletes one with the owner's tag.
    made = operation.progress.asked != "nothing" or operation.progress.clearing or (fail.touched and ours)
    return operation.physical_id if made else failures.not_created_id(turn.name)
