"""CloudFormation as the custom resource sees it: which event follows which answer, and where a stack ends.

One stack with one cluster, and in it a later resource that can fail. Answers decide: a failed create is followed by a
Delete, a failed update by an Update back, a changed physical id by a Delete of the old one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster_resource import on_event, reconcile
from cluster_resource.api import OWNER_TAG
from cluster_resource.decide import STEADY
from cluster_resource.failures import without_outcome
from cluster_resource.on_event import Known
from cluster_resource.operation import Operation, Verdict, epoch_seconds
from cluster_resource.request import ConfigurationError, Request
from cluster_resource.response import early
from tests.cluster_resource import events
from tests.cluster_resource.events import EXECUTION, OWNER, POLL_SECONDS, STARTED, FakeAws
from tests.cluster_resource.fake_api import Cluster, FakeApi

MOST_STEPS = 5000


@dataclass
class Answer:
    """What an event came to: CloudFormation's answer, and the verdict where that came later."""

    told: Verdict
    verdict: Verdict

    @property
    def good(self) -> bool:
        return self.verdict.status == "SUCCESS"


@dataclass
class Stack:
    """A stack in CloudFormation; `status` is the one between operations."""

    api: FakeApi
    aws: FakeAws = field(default_factory=FakeAws)
    status: str = "NONE"
    properties: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    physical_id: str = ""
    second: int = 0
    executions: list[Known] = field(default_factory=list)
    past: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def create(self, wanted: dict[str, Any], *, later_fails: bool = False) -> None:
        self.aws.stack = "CREATE_IN_PROGRESS"
        answer = self._send(events.event("Create", wanted))
        self.physical_id, self.properties = answer.told.physical_id, wanted
        if answer.good and not later_fails:
            self.status = "CREATE_COMPLETE"
            return
        self.aws.stack = "ROLLBACK_IN_PROGRESS"
        self.status = "ROLLBACK_COMPLETE" if self._delete(wanted, self.physical_id) else "ROLLBACK_FAILED"

    def update(self, wanted: dict[str, Any], *, later_fails: bool = False, cancelled: bool = False) -> None:
        """`cancelled`: the rollback begins while the update's event is still being worked on."""
        self.aws.stack = "UPDATE_IN_PROGRESS"
        self.before, old_id = self.properties, self.physical_id
        request = events.event("Update", wanted, old=self.before, physical_id=self.physical_id)
        if cancelled:
            self._send(request, most_steps=2)
        else:
            answer = self._send(request)
            # A failed answer's physical id is ignored unless CloudFormation was told another one before.
            if answer.told.status == "SUCCESS":
                self.physical_id = answer.told.physical_id
            if answer.good and not later_fails:
                self.properties = wanted
                self.status = "UPDATE_COMPLETE"
                self._clean_up(wanted, old_id)
                return
        self.properties = wanted
        self.roll_back()

    def roll_back(self) -> None:
        """The way back of an update, also by `continue-update-rollback`."""
        self.aws.stack = "UPDATE_ROLLBACK_IN_PROGRESS"
        old_id = self.physical_id
        request = events.event("Update", self.before, old=self.properties, physical_id=self.physical_id)
        answer = self._send(request)
        if not answer.good:
            self.status = "UPDATE_ROLLBACK_FAILED"
            return
        self.physical_id = answer.told.physical_id
        self.properties = self.before
        self.status = "UPDATE_ROLLBACK_COMPLETE"
        self._clean_up(self.before, old_id)

    def delete(self) -> None:
        self.aws.stack = "DELETE_IN_PROGRESS"
        gone = self._delete(self.properties, self.physical_id)
        self.status = "NONE" if gone else "DELETE_FAILED"

    def deliver_again(self, index: int) -> None:
        """Lambda delivers an event of the past once more."""
        if self.past:
            self._receive(self.past[index % len(self.past)], expected=False)

    def _clean_up(self, wanted: dict[str, Any], old_id: str) -> None:
        if old_id != self.physical_id:
            self.aws.stack = f"{self.status}_CLEANUP_IN_PROGRESS"
            any(self._delete(wanted, old_id) for _ in range(3))

    def _delete(self, wanted: dict[str, Any], physical_id: str) -> bool:
        answer = self._send(events.event("Delete", wanted, physical_id=physical_id))
        return answer.good

    def _send(self, request: dict[str, Any], most_steps: int = MOST_STEPS) -> Answer:
        self.second += 1
        query = f"X-Amz-Date=20261121T{self.second // 3600:02}{self.second // 60 % 60:02}{self.second % 60:02}Z"
        request = {
            **request,
            "RequestId": f"request-{self.second}",
            "ResponseURL": f"https://answers.example/x?{query}",
        }
        self.past.append(request)
        self._receive(request, expected=True)
        answer = self._work(request, most_steps)
        self.log.append(
            f"{request['RequestType']} {request['ResourceProperties']['ClusterName']} in {self.aws.stack}:"
            f" {answer.verdict.status} {answer.verdict.reason[:300]}"
        )
        _check(self, request, answer)
        return answer

    def _receive(self, request: dict[str, Any], *, expected: bool) -> None:
        """`on_event`; an event of the past must not start anything."""
        started = _Started(self.executions)
        on_event.receive(request, started, send=lambda *_: None)
        assert started.started == expected, f"{request['RequestId']}: started {started.started}"
        self.executions = started.known_now

    def _work(self, request: dict[str, Any], most_steps: int) -> Answer:
        """The state machine; a step whose number is in `crashes` is killed after its work, and done again."""
        outside = reconcile.Clients(lambda _: self.api, self.aws)
        now = float(epoch_seconds(STARTED))
        told: Verdict | None = None
        try:
            work = reconcile.begin(Request.of(request), STARTED, now, outside, EXECUTION)
            if 0 in self.crashes:
                work = reconcile.begin(Request.of(request), STARTED, now, outside, EXECUTION)
        except ConfigurationError as error:
            failed = without_outcome(Request.of(request), str(error), "correct it.", asked=False)
            return Answer(failed, failed)
        number = 0
        while work.verdict is None and number < most_steps:
            number += 1
            now += POLL_SECONDS
            work = Operation.from_json(json.loads(json.dumps(work.to_json(now))))
            if work.to_json(now)["state"] == "early":
                told = early(work, "x")
                work = replace(work, handed_over=True)
            done = reconcile.step(work, now, outside)
            work = reconcile.step(work, now, outside) if number in self.crashes else done
        if work.verdict is None:
            assert number < MOST_STEPS, "the execution does not end"
            nobody_waits = Verdict("FAILED", work.physical_id, "cancelled")
            return Answer(nobody_waits, nobody_waits)
        return Answer(told or work.verdict, work.verdict)


@dataclass
class _Started(on_event.Executions):
    """`Executions` of one delivery."""

    known_before: Sequence[Known]
    started: bool = False

    def __post_init__(self) -> None:
        self.known_now = list(self.known_before)

    def known(self) -> list[Known]:
        return self.known_now

    def start(self, name: str, _event: dict[str, Any]) -> None:
        self.started = True
        self.known_now.append(Known(name, f"arn:{name}", True))

    def stop(self, arn: str, _why: str) -> None:
        self.known_now = [Known(item.name, item.arn, item.running and item.arn != arn) for item in self.known_now]


def is_ours(cluster: Cluster) -> bool:
    return cluster.tags.get(OWNER_TAG) == OWNER


def _check(stack: Stack, request: dict[str, Any], answer: Answer) -> None:
    """No SUCCESS without the state."""
    story = "\n".join(stack.log)
    if not answer.good:
        return
    kind, wanted = request["RequestType"], request["ResourceProperties"]
    if kind == "Delete":
        name = str(request["PhysicalResourceId"]).rpartition("/")[0]
        left = stack.api.clusters.get(name)
        assert left is None or not is_ours(left), f"deleted, but {left} is there\n{story}"
        return
    cluster = stack.api.clusters.get(wanted["ClusterName"])
    assert cluster is not None and is_ours(cluster), f"no cluster\n{story}"
    assert cluster.stack_status in (*STEADY, "UPDATE_ROLLBACK_COMPLETE"), f"{cluster.stack_status}\n{story}"
    assert cluster.fleet == "RUNNING", f"fleet {cluster.fleet}\n{story}"
    text = Request.of(request).cluster.configuration_text
    assert cluster.configuration == text, f"another configuration\n{story}"
