"""How one turn ends: with a verdict, or with another look later."""

import logging
from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import decide, failures, response
from cluster_resource.api import ApiAccessError, ApiError, ApiTrouble, ApiUnknownError, ClusterApi, ClusterView
from cluster_resource.aws import Aws
from cluster_resource.decide import Create, Decision, Delete, Fail, Replace, Succeed, Verify, Wait, Wanted
from cluster_resource.operation import Operation, Verdict
from cluster_resource.request import ClusterProperties, Place, Policy

_LOG = logging.getLogger(__name__)
_MAX_UNKNOWN_CALLS = 5
_MAX_REFUSALS = 8  # at 15 s a poll: two minutes for a new role to become visible everywhere


@dataclass
class Turn:
    """One look at the cluster, one decision, at most one call that changes something.

    Attributes:
        operation: replaced as it progresses.
        properties: of the wanted cluster; None for a delete.
    """

    api: ClusterApi
    aws: Aws
    operation: Operation
    place: Place
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

    def look(self) -> None:
        self.view = self.api.describe(self.name)
        self.seen = str(self.view) if self.view else "no such cluster"

    def in_time(self, decision: Decision) -> Decision:
        return decide.decide_poll(
            decision,
            now=self.now,
            deadline=self.operation.deadline,
            wanted=self.wanted,
            seen=self.seen,
            note=self.operation.progress.note,
        )

    def progress(self, **changes: Any) -> Operation:  # noqa: ANN401 - the fields of Progress
        self.operation = replace(self.operation, progress=replace(self.operation.progress, **changes))
        return self.operation


def finish(turn: Turn, decision: Succeed | Fail, details: tuple[str, ...] = ()) -> Operation:
    behind = turn.operation.progress.left_behind
    warnings = (failures.left_behind(behind),) if behind else ()
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


def not_a_dry_run(turn: Turn, decision: Decision) -> Operation:
    return unknown(turn, ApiUnknownError("the API answered a dry run as if it were a real request"), decision)


def unknown(turn: Turn, error: ApiUnknownError, decision: Decision) -> Operation:
    calls = turn.operation.progress.unknown_calls + 1
    asked = turn.operation.progress.asked if isinstance(decision, Verify | Delete | Replace | Wait) else "unknown"
    replacing = turn.operation.progress.replacing or (isinstance(decision, Create) and turn.operation.kind == "update")
    note = f"a call had no clear answer ({error})"
    turn.progress(asked=asked, unknown_calls=calls, replacing=replacing, note=note)
    _LOG.warning("%s: no clear answer (%d): %s", type(decision).__name__, calls, error)
    if calls < _MAX_UNKNOWN_CALLS:
        return turn.operation
    return finish(turn, failures.no_answer(turn.operation, turn.name, error, turn.seen))


def blind(turn: Turn, error: ApiTrouble) -> Operation:
    """The cluster could not be described: try again until the time limit."""
    _LOG.warning("%s: %s", turn.name, error)
    return wait(turn, f"the API could not be reached ({error})")


def no_access(turn: Turn, error: ApiAccessError) -> Operation:
    refusals = turn.operation.progress.refusals + 1
    _LOG.warning("%s: %s", turn.name, error)
    turn.progress(refusals=refusals, note=str(error))
    if refusals < _MAX_REFUSALS and turn.now < turn.operation.deadline:
        return turn.operation
    return finish(turn, failures.no_access(turn.place, error))


def refused(turn: Turn, error: ApiError, *, touched: bool) -> Operation:
    fail = failures.refused(turn.operation, turn.name, error, touched=touched)
    return finish(turn, fail, details=failures.refusal_lines(error))


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
    events = failures.stack_failures(turn.api, turn.aws, turn.name) if fail.events and view else ()
    causes = tuple(f"{code}: {reason}" for code, reason in view.failures) if view else ()
    report = failures.Report(
        what=fail.what,
        todo=_todo(turn, fail),
        details=(*details, *causes, *events),
        cluster_logs=failures.cluster_logs(turn.api, turn.name) if fail.events and view else "",
    )
    return failures.reported(turn.operation.request, Verdict("FAILED", _failed_id(turn, fail), ""), report)


def _todo(turn: Turn, fail: Fail) -> str:
    todo = fail.todo if fail.todo.startswith("To do:") else f"To do: {fail.todo}"
    if not turn.policy.rollback:
        return todo
    stack = turn.operation.request.stack_id
    return f"{todo} This was a rollback: go on by `aws cloudformation continue-update-rollback --stack-name {stack}`."


def _failed_id(turn: Turn, fail: Fail) -> str:
    """A failed rename keeps the id of the old cluster; a create that made no cluster has an id that says so."""
    operation = turn.operation
    if operation.kind != "create" or operation.request.type == "Update":
        return operation.request.physical_id or operation.physical_id
    ours = turn.view is not None and decide.is_ours(turn.view, turn.wanted)
    # If a create was sent, the Delete that follows must look for a cluster; it only deletes one with the owner's tag.
    made = operation.progress.asked != "nothing" or operation.progress.clearing or (fail.touched and ours)
    return operation.physical_id if made else failures.not_created_id(turn.name)
