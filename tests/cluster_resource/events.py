"""CloudFormation events of one resource, and the state machine that takes them through the steps."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from cluster_resource import on_event, reconcile, response
from cluster_resource.api import ClusterApi, StackEvent
from cluster_resource.aws import Aws, Execution
from cluster_resource.operation import Operation, Verdict, epoch_seconds
from cluster_resource.request import Request

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/local-cluster/11111111-2222-3333-4444-555555555555"
LOGICAL_ID = "ParallelCluster"
OWNER = f"{STACK}/{LOGICAL_ID}"
STARTED = "2026-11-21T08:00:00.000Z"
POLL_SECONDS = 20


def configuration(max_count: int = 2) -> dict[str, Any]:
    """A configuration as CloudFormation delivers it: every scalar a string."""
    return {
        "Region": "us-east-1",
        "Image": {"Os": "alinux2023"},
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmQueues": [{"Name": "q", "ComputeResources": [{"Name": "c", "MaxCount": str(max_count)}]}],
        },
        "Tags": [{"Key": "team", "Value": "training"}],
    }


TYPES = {"integer": ["Scheduling.SlurmQueues[].ComputeResources[].MaxCount"]}


def properties(name: str = "local", max_count: int = 2, **others: object) -> dict[str, Any]:
    return {
        "ServiceToken": "arn:aws:lambda:us-east-1:123456789012:function:on-event",
        "ClusterName": name,
        "Configuration": configuration(max_count),
        "ConfigurationTypes": TYPES,
        "ApiUrl": "https://abc.execute-api.us-east-1.amazonaws.com/prod",
        "ApiUserRoleArn": "arn:aws:iam::123456789012:role/ApiUser",
        "ApiVersion": "3.16.1",
        "AssetsVersion": "1",
        **others,
    }


def event(
    kind: str, wanted: dict[str, Any], *, old: dict[str, Any] | None = None, physical_id: str | None = None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "RequestType": kind,
        "RequestId": "99999999-0000-0000-0000-000000000000",
        "ResponseURL": "https://cloudformation-custom-resource-response.example/answer?signature=secret",
        "StackId": STACK,
        "LogicalResourceId": LOGICAL_ID,
        "ResourceType": "Custom::ParallelCluster",
        "ResourceProperties": wanted,
    }
    if physical_id:
        result["PhysicalResourceId"] = physical_id
    if old is not None:
        result["OldResourceProperties"] = old
    return result


def create(wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    return event("Create", wanted or properties())


def update(wanted: dict[str, Any], old: dict[str, Any], physical_id: str | None = None) -> dict[str, Any]:
    return event("Update", wanted, old=old, physical_id=physical_id or own_id(old["ClusterName"]))


def delete(wanted: dict[str, Any] | None = None, physical_id: str | None = None) -> dict[str, Any]:
    return event("Delete", wanted or properties(), physical_id=physical_id or own_id("local"))


def own_id(name: str) -> str:
    return Request.of(event("Create", {})).own_id(name)


def text_of(wanted: dict[str, Any]) -> str:
    """The configuration as the handler hands it to the API."""
    return Request.of(create(wanted)).cluster.configuration_text


def tags_of(text: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in json.loads(text)["Tags"]}


class StepFunctions:
    """The botocore client; `known` are the statuses of executions by name, `error` is the code of a failed start."""

    def __init__(self, error: str = "", known: dict[str, str] | None = None) -> None:
        self.error, self.known = error, known or {}
        self.started: list[dict[str, Any]] = []
        self.stopped: list[str] = []

    def list_executions(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401
        assert request["stateMachineArn"] == "arn:machine"
        items = self.known.items()
        return {"executions": [{"name": name, "executionArn": f"arn:{name}", "status": is_} for name, is_ in items]}

    def stop_execution(self, **request: Any) -> None:  # noqa: ANN401
        self.stopped.append(request["executionArn"])
        self.known[request["executionArn"].removeprefix("arn:")] = "ABORTED"

    def start_execution(self, **request: Any) -> None:  # noqa: ANN401
        self.started.append(request)
        if self.error:
            raise ClientError({"Error": {"Code": self.error, "Message": "no"}}, "StartExecution")
        self.known[request["name"]] = "RUNNING"

    def receive(self, event: dict[str, Any], **options: Any) -> None:  # noqa: ANN401
        on_event.receive(event, self, "arn:machine", **options)


@dataclass
class FakeAws(Aws):
    """`Aws` with answers that a test sets.

    Attributes:
        stack: status of the stack that holds the resource; None where CloudFormation does not say.
        jobs: what Slurm answers; None where the head node does not.
        nested: events of nested stacks by their id.
        executions: those that do not run, by ARN; None where Step Functions does not know it.
    """

    stack: str | None = "UPDATE_IN_PROGRESS"
    jobs: int | None = None
    nested: dict[str, tuple[StackEvent, ...]] = field(default_factory=dict)
    executions: dict[str, Execution | None] = field(default_factory=dict)

    def stack_status(self, stack_id: str) -> str | None:
        assert stack_id == STACK
        return self.stack

    def stack_events(self, stack_id: str) -> tuple[StackEvent, ...]:
        return self.nested.get(stack_id, ())

    def running_jobs(self, instance_id: str) -> int | None:
        assert instance_id.startswith("i-")
        return self.jobs

    def execution(self, arn: str) -> Execution | None:
        return self.executions.get(arn, Execution("RUNNING"))


ROLLING_BACK = "UPDATE_ROLLBACK_IN_PROGRESS"
EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:machine:one"


@dataclass
class Machine:
    """The state machine: begin, then polls, through JSON each time.

    Attributes:
        crashes: numbers of steps that are killed after their work, and repeated.
        polls: their number.
        early: the answer to CloudFormation while the operation goes on, if there was one.
    """

    api: ClusterApi
    aws: FakeAws = field(default_factory=FakeAws)
    crashes: Collection[int] = ()
    polls: int = 0
    early: Verdict | None = None

    def run(self, request: dict[str, Any], limit: int = 400, *, cancelled: bool = False) -> Verdict:
        """Follow an event to its verdict. `cancelled`: the execution is stopped at the limit."""
        clients = reconcile.Clients(lambda _: self.api, self.aws)
        now = float(epoch_seconds(STARTED))
        for _ in range(1 + (0 in self.crashes)):
            work = reconcile.begin(Request.of(request), STARTED, now, clients, EXECUTION)
        work = self._through_json(work, now)
        while work.verdict is None:
            if cancelled and self.polls == limit:
                return Verdict("FAILED", work.physical_id, "cancelled")
            self.polls += 1
            assert self.polls <= limit, "the execution does not end"
            now += POLL_SECONDS
            for _ in range(1 + (self.polls in self.crashes)):
                done = reconcile.step(work, now, clients)
            work = self._through_json(done, now)
        return work.verdict

    def _through_json(self, work: Operation, now: float) -> Operation:
        item = json.loads(json.dumps(work.to_json(now)))
        assert (item["state"] == "done") == (item["verdict"] is not None)
        work = Operation.from_json(item)
        if item["state"] == "early":
            assert self.early is None, "a second early answer"
            self.early = response.early(work, "local")
            work = replace(work, handed_over=True)
        return work
