"""One turn: look at the cluster, decide, make one call at most that changes something, write down what became of it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import decide, failing, leftover, report, settling, updating, verdicts
from cluster_resource.api import (
    Accepted,
    ApiAccessError,
    ApiError,
    ApiTrouble,
    ApiUnknownError,
    ClusterApi,
    ClusterView,
)
from cluster_resource.aws import Aws
from cluster_resource.decide import Create, Decision, Delete, Fail, Replace, Succeed, Update, Verify, Wait, Wanted
from cluster_resource.policy import Policy
from cluster_resource.properties import ClusterProperties, Place, request_of
from cluster_resource.work_item import Progress, Work

_LOG = logging.getLogger(__name__)
MAX_UNKNOWN_CALLS = 5
MAX_REFUSALS = 8  # at 15 s a poll: two minutes for a new role to become visible everywhere

DecideOperation = Callable[[ClusterView | None, Progress, Wanted], Decision]


@dataclass
class Turn:
    """A turn under way; `work` is replaced as it goes on.

    `properties` are those of the wanted cluster, None where it is only deleted.
    """

    api: ClusterApi
    aws: Aws
    work: Work
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

    def take(self, decide_operation: DecideOperation) -> Work:  # noqa: PLR0911 - one return a decision
        if self.work.progress.leftover and not leftover.dropped(self, self.work.progress.leftover):
            return self.wait(self.work.progress.note)
        self.view = self.api.describe(self.name)
        self.seen = str(self.view) if self.view else "no such cluster"
        decision = self.in_time(decide_operation(self.view, self.work.progress, self.wanted))
        _LOG.info("%s %s: seen %s, decided %s", self.work.operation, self.name, self.seen, decision)
        self.progress(refusals=0)
        if isinstance(decision, Create | Update | Replace) and (unlike := self._api_unlike()):
            return self.finish(unlike)
        match decision:
            case Succeed() if self.work.operation != "delete":
                return settling.settle(self, decision)
            case Succeed() | Fail():
                return self.finish(decision)
            case Wait(why):
                return self.progress(note=why)
            case Update():
                return updating.update(self)
            case Replace(why):
                return updating.replace_cluster(self, why)
            case _:
                return self.call(decision)

    def in_time(self, decision: Decision) -> Decision:
        return decide.decide_poll(
            decision,
            now=self.now,
            deadline=self.work.deadline,
            wanted=self.wanted,
            seen=self.seen,
            note=self.work.progress.note,
        )

    def wait(self, why: str) -> Work:
        """Look again later; past the deadline, fail."""
        decision = self.in_time(Wait(why))
        return self.finish(decision) if isinstance(decision, Fail) else self.progress(note=why)

    def call(self, decision: Create | Update | Delete | Verify) -> Work:
        try:
            match decision:
                case Create():
                    made = self._accepted(self.api.create(self.name, self.text))
                    return self.progress(replacing=True) if self.work.operation == "update" else made
                case Update():
                    return self._accepted(self.api.update(self.name, self.text))
                case Delete(clearing):
                    self.api.delete(self.name)
                    return self.progress(clearing=True) if clearing else self.progress(asked="accepted")
                case Verify():
                    self.api.update(self.name, self.text, dry_run=True)
                    raise ApiUnknownError("a dry run was answered as if it were none")
        except ApiUnknownError as error:
            return self.unknown(error, decision)
        except ApiError as error:
            return self.refusal(error, decision)

    def _api_unlike(self) -> Fail | None:
        """Before anything is asked of it: is the API of the version that is wanted? Not every API tells."""
        if self.work.progress.api_checked or not self.properties:
            return None
        try:
            version = self.api.api_version(self.properties.os)
        except ApiTrouble as error:
            _LOG.warning("The API's version could not be found out: %s", error)
            version = None
        if version and version != self.wanted.version:
            return failing.unlike_version(self.place.api_url, version, self.wanted.version)
        self.progress(api_checked=True)
        return None

    def _accepted(self, accepted: Accepted) -> Work:
        report.warnings(accepted.messages)
        self.progress(asked="accepted", clearing=False, note="the request was accepted")
        if accepted.version and accepted.version != self.wanted.version:
            return self.finish(failing.unlike_version(self.place.api_url, accepted.version, self.wanted.version))
        return self.work

    def unknown(self, error: ApiUnknownError, decision: Decision) -> Work:
        calls = self.work.progress.unknown_calls + 1
        asked = self.work.progress.asked if isinstance(decision, Verify | Delete | Replace | Wait) else "unknown"
        replacing = self.work.progress.replacing or (isinstance(decision, Create) and self.work.operation == "update")
        note = f"a call had no clear answer ({error})"
        self.progress(asked=asked, unknown_calls=calls, replacing=replacing, note=note)
        _LOG.warning("%s: no clear answer (%d): %s", type(decision).__name__, calls, error)
        if calls < MAX_UNKNOWN_CALLS:
            return self.work
        return self.finish(failing.no_answer(self.work, self.name, error, self.seen))

    def refusal(self, error: ApiError, decision: Decision) -> Work:
        message = error.message.lower()
        if error.http_status in (409, 429) or (isinstance(decision, Create) and "already exists" in message):
            # Something is in progress, or the name was taken since we looked: the next look tells which.
            return self.progress(note=f"the API answered: {error}")
        if isinstance(decision, Update | Verify) and "no changes found" in message:
            return self.no_changes()
        if isinstance(decision, Verify) and (error.http_status == 412 or error.refused):
            if request_of(self.work.event).type == "Update":
                # The way back of a rename, to a cluster that had other settings when it was left.
                return updating.update(self)
            return self.finish(failing.differs(self.name), details=report.drift(error.changes))
        if isinstance(decision, Delete) and error.http_status == 404:
            return self.progress(asked="accepted") if not decision.clearing else self.work
        touched = not isinstance(decision, Create | Verify)
        return self.finish(failing.refused(self.work, self.name, error, touched=touched), details=report.refusal(error))

    def no_changes(self) -> Work:
        """The cluster has the wanted configuration; after a rollback of its own, that is what it went back to."""
        if self.view and (self.view.status in decide.STEADY or self.view.stack_status == "UPDATE_ROLLBACK_COMPLETE"):
            why = f"No changes: the cluster has the wanted configuration; it is {self.view}."
            return settling.settle(self, Succeed(why))
        return self.finish(failing.half_updated(self.name, self.seen))

    def blind(self, error: ApiTrouble) -> Work:
        """The look itself failed. The cluster goes on without us: look again until time runs out."""
        _LOG.warning("%s: %s", self.name, error)
        return self.wait(f"the API could not be reached ({error})")

    def refused(self, error: ApiAccessError) -> Work:
        refusals = self.work.progress.refusals + 1
        _LOG.warning("%s: %s", self.name, error)
        self.progress(refusals=refusals, note=str(error))
        if refusals < MAX_REFUSALS and self.now < self.work.deadline:
            return self.work
        return self.finish(failing.no_access(self.place, error))

    def finish(self, decision: Succeed | Fail, details: tuple[str, ...] = ()) -> Work:
        behind = self.work.progress.left_behind
        warnings = (leftover.warning(behind),) if behind else ()
        if isinstance(decision, Succeed):
            verdict = verdicts.success(self.work, self.view, " ".join((decision.why, *warnings)))
        else:
            details = (*settling.give_back_the_fleet(self), *warnings, *details)
            verdict = failing.verdict(self, decision, details)
        self.work = replace(self.work, verdict=verdict)
        return self.work

    def progress(self, **changes: Any) -> Work:  # noqa: ANN401 - the fields of Progress
        self.work = replace(self.work, progress=replace(self.work.progress, **changes))
        return self.work
