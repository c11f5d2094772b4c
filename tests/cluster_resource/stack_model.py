"""CloudFormation as the custom resource sees it: which event follows which answer, and where a stack ends.

One stack with one cluster, and in it a later resource that can fail. Answers decide: a failed create is followed by a
Delete, a failed update by an Update back, a changed physical id by a Delete of the old one.
"""

from dataclasses import dataclass, field
from typing import Any

from cluster_resource.api import OWNER_TAG
from cluster_resource.decide import STEADY
from cluster_resource.request import Request
from tests.cluster_resource import events
from tests.cluster_resource.events import OWNER, FakeAws, Machine, StepFunctions
from tests.cluster_resource.fake_api import Cluster, FakeApi

MOST_STEPS = 5000
INVENTED = "local-cluster-ParallelCluster-1ABCDEF"  # CloudFormation's id of a resource that never answered its Create


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
    stepfunctions: StepFunctions = field(default_factory=StepFunctions)
    past: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    left_with_jobs: set[str] = field(default_factory=set)
    in_flight: bool = False

    def create(self, wanted: dict[str, Any], *, later_fails: bool = False, cancelled_after: int | None = None) -> None:
        """`cancelled_after`: a number of polls, after which another resource of the stack fails."""
        self.aws.stack = "CREATE_IN_PROGRESS"
        good, self.physical_id = self._send(events.event("Create", wanted), cancelled_after)
        self.properties = wanted
        if good and not later_fails and cancelled_after is None:
            self.status = "CREATE_COMPLETE"
            return
        self.aws.stack = "ROLLBACK_IN_PROGRESS"
        self.status = "ROLLBACK_COMPLETE" if self._delete(wanted, self.physical_id) else "ROLLBACK_FAILED"

    def update(self, wanted: dict[str, Any], *, later_fails: bool = False, cancelled_after: int | None = None) -> None:
        """`cancelled_after`: a number of polls; the rollback begins while the update's event is being worked on."""
        self.aws.stack = "UPDATE_IN_PROGRESS"
        self.before, old_id = self.properties, self.physical_id
        request = events.event("Update", wanted, old=self.before, physical_id=self.physical_id)
        good, physical_id = self._send(request, cancelled_after)
        cancelled = cancelled_after is not None
        self.properties = wanted
        if not cancelled:
            self.physical_id = physical_id
        if good and not later_fails and not cancelled:
            self.status = "UPDATE_COMPLETE"
            self._clean_up(wanted, old_id)
            return
        self.roll_back()

    def roll_back(self) -> None:
        """The way back of an update, also by `continue-update-rollback`."""
        self.aws.stack = "UPDATE_ROLLBACK_IN_PROGRESS"
        old_id = self.physical_id
        request = events.event("Update", self.before, old=self.properties, physical_id=self.physical_id)
        good, physical_id = self._send(request)
        if not good:
            self.status = "UPDATE_ROLLBACK_FAILED"
            return
        self.physical_id = physical_id
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
            if not any(self._delete(wanted, old_id) for _ in range(3)) and "delete it later: `pcluster" in self.log[-1]:
                self.left_with_jobs.add(old_id.partition("/")[0])

    def _delete(self, wanted: dict[str, Any], physical_id: str) -> bool:
        return self._send(events.event("Delete", wanted, physical_id=physical_id))[0]

    def _send(self, request: dict[str, Any], cancelled_after: int | None = None) -> tuple[bool, str]:
        """Whether the operation succeeded, and the physical id of the resource after it."""
        self.second += 1
        query = f"X-Amz-Date=20261121T{self.second // 3600:02}{self.second // 60 % 60:02}{self.second % 60:02}Z"
        url = f"https://answers.example/x?{query}"
        request = {**request, "RequestId": f"request-{self.second}", "ResponseURL": url}
        self.past.append(request)
        self._receive(request, expected=True)
        self.api.begin_event(in_flight=self.in_flight)
        self.in_flight = cancelled_after is not None
        if not self.in_flight:
            self.api.late_looks = 1
        machine = Machine(self.api, self.aws, self.crashes)
        limit = MOST_STEPS if cancelled_after is None else cancelled_after
        verdict = machine.run(request, limit, cancelled=self.in_flight)
        self.log.append(
            f"{request['RequestType']} {request['ResourceProperties']['ClusterName']} in {self.aws.stack}:"
            f" {verdict.status} {verdict.reason[:600]}"
        )
        if verdict.status == "SUCCESS":
            _check(self, request)
        if verdict.reason == "cancelled" and request["RequestType"] == "Create":
            return False, INVENTED
        # CloudFormation ignores the physical id of a failed update.
        answer = machine.early or verdict
        kept = request["RequestType"] == "Update" and answer.status == "FAILED"
        return verdict.status == "SUCCESS", self.physical_id if kept else answer.physical_id

    def _receive(self, request: dict[str, Any], *, expected: bool) -> None:
        """`on_event`; an event of the past must not start anything."""
        before = len(self.stepfunctions.started)
        self.stepfunctions.receive(request, send=lambda *_: None)
        assert len(self.stepfunctions.started) == before + expected, f"{request['RequestId']}: expected {expected}"


def is_ours(cluster: Cluster) -> bool:
    return cluster.tags.get(OWNER_TAG) == OWNER


def _check(stack: Stack, request: dict[str, Any]) -> None:
    """No SUCCESS without the state."""
    story = "\n".join(stack.log)
    kind, wanted = request["RequestType"], request["ResourceProperties"]
    stack.api.do_late_work()
    if kind == "Delete":
        name = str(request["PhysicalResourceId"]).rpartition("/")[0] or wanted["ClusterName"]
        left = stack.api.clusters.get(name)
        assert left is None or not is_ours(left), f"deleted, but {left} is there\n{story}"
        return
    cluster = stack.api.clusters.get(wanted["ClusterName"])
    assert cluster is not None and is_ours(cluster), f"no cluster\n{story}"
    assert cluster.stack_status in (*STEADY, "UPDATE_ROLLBACK_COMPLETE"), f"{cluster.stack_status}\n{story}"
    assert cluster.fleet == "RUNNING", f"fleet {cluster.fleet}\n{story}"
    text = Request.of(request).cluster.configuration_text
    assert cluster.configuration == text, f"another configuration\n{story}"
