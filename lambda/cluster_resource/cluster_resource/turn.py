"""One turn: look at the cluster, decide, make one call at most, write down what became of it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import decide, identity, report, verdicts
from cluster_resource.api import (
    Accepted,
    ApiAccessError,
    ApiError,
    ApiTrouble,
    ApiUnknownError,
    ClusterApi,
    ClusterView,
)
from cluster_resource.decide import Create, Decision, Delete, Fail, Succeed, Update, Verify, Wait, Wanted
from cluster_resource.properties import ClusterProperties, request_of
from cluster_resource.response import room_for_reason
from cluster_resource.work_item import Progress, Verdict, Work

_LOG = logging.getLogger(__name__)
MAX_UNKNOWN_CALLS = 5
MAX_REFUSALS = 8  # at 15 s a poll: two minutes for a new role to become visible everywhere

DecideOperation = Callable[[ClusterView | None, Progress, Wanted], Decision]


@dataclass
class Turn:
    """A turn under way; `work` is replaced as it goes on."""

    api: ClusterApi
    work: Work
    properties: ClusterProperties
    wanted: Wanted
    now: float
    view: ClusterView | None = None
    seen: str = "not yet"

    def take(self, decide_operation: DecideOperation) -> Work:
        if self.work.progress.leftover:
            self._drop_leftover(self.work.progress.leftover)
        self.view = self.api.describe(self.wanted.name)
        self.seen = str(self.view) if self.view else "no such cluster"
        decision = self._in_time(decide_operation(self.view, self.work.progress, self.wanted))
        _LOG.info("%s %s: seen %s, decided %s", self.work.operation, self.wanted.name, self.seen, decision)
        self._progress(refusals=0)
        match decision:
            case Succeed() | Fail():
                return self.finish(decision)
            case Wait(why):
                return self._progress(note=why)
            case _:
                return self._call(decision)

    def _in_time(self, decision: Decision) -> Decision:
        deadline = self.work.deadline
        return decide.decide_poll(decision, now=self.now, deadline=deadline, wanted=self.wanted, seen=self.seen)

    def _call(self, decision: Create | Update | Delete | Verify) -> Work:
        name, text = self.wanted.name, self.properties.configuration_text
        try:
            match decision:
                case Create():
                    return self._accepted(self.api.create(name, text))
                case Update():
                    return self._accepted(self.api.update(name, text))
                case Delete(clearing):
                    self.api.delete(name)
                    return self._progress(clearing=True) if clearing else self._progress(asked="accepted")
                case Verify():
                    self.api.update(name, text, dry_run=True)
                    raise ApiUnknownError("a dry run was answered as if it were none")
        except ApiUnknownError as error:
            return self._unknown(error, decision)
        except ApiError as error:
            return self._refusal(error, decision)

    def _accepted(self, accepted: Accepted) -> Work:
        report.warnings(accepted.messages)
        self._progress(asked="accepted", clearing=False, note="the request was accepted")
        if accepted.version and accepted.version != self.wanted.version:
            return self.finish(
                Fail(
                    f"The API at {self.properties.api_url} makes clusters of ParallelCluster {accepted.version}, where"
                    f" {self.wanted.version} is wanted.",
                    "Point the environment at an API of that version, or ask for the version of the API.",
                )
            )
        return self.work

    def _unknown(self, error: ApiUnknownError, decision: Decision) -> Work:
        calls = self.work.progress.unknown_calls + 1
        asked = self.work.progress.asked if isinstance(decision, Verify | Delete) else "unknown"
        self._progress(asked=asked, unknown_calls=calls, note=f"a call had no clear answer ({error})")
        _LOG.warning("%s: no clear answer (%d): %s", type(decision).__name__, calls, error)
        if calls < MAX_UNKNOWN_CALLS:
            return self.work
        return self.finish(
            Fail(
                f"The ParallelCluster API did not carry out the {self.work.operation} of the cluster"
                f" {self.wanted.name} in {calls} attempts; the last answer: {error}. The cluster: {self.seen}.",
                "Look into the log group of the ParallelCluster API's function, then deploy again.",
            )
        )

    def _refusal(self, error: ApiError, decision: Decision) -> Work:
        message = error.message.lower()
        if error.http_status in (409, 429) or (isinstance(decision, Create) and "already exists" in message):
            # Something is in progress, or the name was taken since we looked: the next look tells which.
            return self._progress(note=f"the API answered: {error}")
        if isinstance(decision, Update | Verify) and "no changes found" in message:
            return self._no_changes()
        if isinstance(decision, Verify) and error.http_status == 412:
            return self._differs(error)
        if isinstance(decision, Delete) and error.http_status == 404:
            return self._progress(asked="accepted") if not decision.clearing else self.work
        return self.finish(
            Fail(
                f"The ParallelCluster API refused the {self.work.operation} of the cluster {self.wanted.name} (HTTP"
                f" {error.http_status}).",
                report.refusal_todo(error),
                touched=not isinstance(decision, Create | Verify),
            ),
            details=report.refusal(error),
        )

    def _no_changes(self) -> Work:
        """The cluster has the wanted configuration; after a rollback of its own, that is what it went back to."""
        if self.view and (self.view.status in decide.STEADY or self.view.stack_status == "UPDATE_ROLLBACK_COMPLETE"):
            return self.finish(Succeed(f"No changes: the cluster has the wanted configuration; it is {self.view}."))
        return self.finish(
            Fail(
                f"The cluster {self.wanted.name} has the wanted configuration, but is {self.seen}.",
                "Bring its stack to a stable state, then deploy again.",
                events=True,
            )
        )

    def _differs(self, error: ApiError) -> Work:
        return self.finish(
            Fail(
                f"A cluster {self.wanted.name} of this resource exists already, with another configuration. It was not"
                " touched.",
                "Delete it, or deploy with its configuration first and change that afterwards.",
                touched=False,
            ),
            details=report.drift(error.changes),
        )

    def _drop_leftover(self, name: str) -> None:
        """A rename failed and is rolled back: delete what it left, if it is ours. Nobody waits for the end of it."""
        view = self.api.describe(name)
        if view and decide.is_ours(view, self.wanted) and view.status != "DELETE_IN_PROGRESS":
            try:
                self.api.delete(name)
            except ApiTrouble as error:
                _LOG.warning("The cluster %s, left by a failed rename, could not be deleted: %s", name, error)
        self._progress(leftover=None)

    def blind(self, error: ApiTrouble) -> Work:
        """The look itself failed. The cluster goes on without us: look again until time runs out."""
        _LOG.warning("%s: %s", self.wanted.name, error)
        wait = Wait(f"the API could not be reached ({error})")
        decision = self._in_time(wait)
        return self.finish(decision) if isinstance(decision, Fail) else self._progress(note=wait.why)

    def refused(self, error: ApiAccessError) -> Work:
        refusals = self.work.progress.refusals + 1
        _LOG.warning("%s: %s", self.wanted.name, error)
        self._progress(refusals=refusals, note=str(error))
        if refusals < MAX_REFUSALS and self.now < self.work.deadline:
            return self.work
        return self.finish(
            Fail(
                f"The ParallelCluster API could not be called: {error}.",
                f"Check that this function may assume {self.properties.api_user_role_arn}, and that the role may call"
                f" {self.properties.api_url}.",
            )
        )

    def finish(self, decision: Succeed | Fail, details: tuple[str, ...] = ()) -> Work:
        if isinstance(decision, Succeed):
            self.work = replace(self.work, verdict=verdicts.success(self.work, self.view, decision.why))
        else:
            self.work = replace(self.work, verdict=self._failure(decision, details))
        return self.work

    def _failure(self, fail: Fail, details: tuple[str, ...]) -> Verdict:
        exists = self.view is not None
        failure = report.Report(
            what=fail.what,
            todo=fail.todo if fail.todo.startswith("To do:") else f"To do: {fail.todo}",
            details=(
                *details,
                *(report.cluster_failures(self.view) if self.view else ()),
                *(report.stack_failures(self.api, self.wanted.name) if fail.events and exists else ()),
            ),
            cluster_logs=report.cluster_logs(self.api, self.wanted.name) if fail.events and exists else "",
        )
        failure.log()
        verdict = Verdict("FAILED", self._failed_id(fail), "")
        return replace(verdict, reason=failure.text(room_for_reason(self.work.event, verdict)))

    def _failed_id(self, fail: Fail) -> str:
        """A failed rename keeps the id of the old cluster; a creation that made nothing says so."""
        request = request_of(self.work.event)
        if self.work.operation != "create" or request.type == "Update":
            return request.physical_id or self.work.physical_id
        ours = self.view is not None and decide.is_ours(self.view, self.wanted)
        # Where a creation was sent, its Delete must look for a cluster; it touches none without our tag.
        made = self.work.progress.asked != "nothing" or (fail.touched and ours)
        return self.work.physical_id if made else identity.not_created_id(self.wanted.name)

    def _progress(self, **changes: Any) -> Work:  # noqa: ANN401 - the fields of Progress
        self.work = replace(self.work, progress=replace(self.work.progress, **changes))
        return self.work
