"""CloudFormation events of one resource, and the state machine that takes them through the steps."""

import json
from dataclasses import dataclass
from typing import Any

from cluster_resource import identity, steps
from cluster_resource.api import ClusterApi
from cluster_resource.properties import properties_of
from cluster_resource.work_item import Verdict, Work, epoch_seconds

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/local-cluster/11111111-2222-3333-4444-555555555555"
LOGICAL_ID = "ParallelCluster"
OWNER = f"{STACK}/{LOGICAL_ID}"
STARTED = "2026-11-21T08:00:00.000Z"
POLL_SECONDS = 15


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


def properties(name: str = "local", max_count: int = 2, **others: str) -> dict[str, Any]:
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
    return identity.physical_id(name, STACK, LOGICAL_ID)


def text_of(wanted: dict[str, Any]) -> str:
    """The configuration as the handler hands it to the API."""
    return properties_of(create(wanted)).configuration_text


def tags_of(text: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in json.loads(text)["Tags"]}


@dataclass
class Machine:
    """The state machine: begin, then polls, through JSON each time. `polls` counts them."""

    api: ClusterApi
    polls: int = 0

    def run(self, request: dict[str, Any], limit: int = 400) -> Verdict:
        now = float(epoch_seconds(STARTED))
        work = self._through_json(steps.begin(request, STARTED, now, lambda _: self.api))
        while work.verdict is None:
            self.polls += 1
            assert self.polls <= limit, "the execution does not end"
            now += POLL_SECONDS
            work = self._through_json(steps.step(work, now, lambda _: self.api))
        return work.verdict

    @staticmethod
    def _through_json(work: Work) -> Work:
        item = json.loads(json.dumps(work.to_json()))
        assert item["state"] == ("waiting" if item["verdict"] is None else "done")
        return Work.from_json(item)
