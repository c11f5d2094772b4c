"""The life of one stack with a cluster in it, driven through CloudFormation."""

from __future__ import annotations

import json
import time
from typing import Any

import yaml
from botocore.exceptions import ClientError

from .deployment import Base
from .template import StackSpec, template

LIMIT_S = 300.0
POLL_S = 0.25
GONE = "gone"
OWNER_TAG = "trainyard:owner"


class Life:
    """A stack, from its creation to its deletion."""

    def __init__(self, base: Base, name: str) -> None:
        self.base = base
        self.name = name
        self.stacks: Any = base.client("cloudformation")
        self.stack_id = ""

    def create(self, spec: StackSpec, *, wait: bool = True, **options: Any) -> str:  # noqa: ANN401 - of create_stack
        """Create the stack; returns its status."""
        body = json.dumps(template(self.base, spec))
        self.stack_id = self.stacks.create_stack(StackName=self.name, TemplateBody=body, **options)["StackId"]
        return self.settled() if wait else "CREATE_IN_PROGRESS"

    def update(self, spec: StackSpec, *, wait: bool = True) -> str:
        """Update the stack; returns its status."""
        self.stacks.update_stack(StackName=self.name, TemplateBody=json.dumps(template(self.base, spec)))
        return self.settled() if wait else "UPDATE_IN_PROGRESS"

    def delete(self, *, wait: bool = True) -> str:
        """Delete the stack; returns its status."""
        self.stacks.delete_stack(StackName=self.name)
        return self.settled() if wait else "DELETE_IN_PROGRESS"

    def status(self) -> str:
        """The stack's status now; one that was never made counts as deleted."""
        if not self.stack_id:
            return "DELETE_COMPLETE"
        try:
            return str(self.stacks.describe_stacks(StackName=self.stack_id)["Stacks"][0]["StackStatus"])
        except ClientError as error:
            if "does not exist" in str(error):
                return "DELETE_COMPLETE"
            raise

    def settled(self, limit_s: float = LIMIT_S) -> str:
        """The status once nothing is in progress."""
        end = time.monotonic() + limit_s
        while (status := self.status()).endswith("_IN_PROGRESS"):
            assert time.monotonic() < end, f"{self.name} is still {status} after {limit_s} s: {self.story()}"
            time.sleep(POLL_S)
        return status

    def events(self) -> list[dict[str, Any]]:
        """The stack's events, oldest first."""
        found: list[dict[str, Any]] = self.stacks.describe_stack_events(StackName=self.stack_id)["StackEvents"]
        return list(reversed(found))

    def failures(self, kind: str = "Custom::ParallelCluster") -> list[str]:
        """The reasons of the failed events of resources whose type begins so, oldest first."""
        return [
            event.get("ResourceStatusReason", "")
            for event in self.events()
            if event["ResourceType"].startswith(kind) and event["ResourceStatus"].endswith("_FAILED")
        ]

    def story(self) -> str:
        """The events in short, for the message of a failed assertion."""
        return "\n".join(
            f"{event['LogicalResourceId']} {event['ResourceStatus']} {event.get('ResourceStatusReason', '')[:600]}"
            for event in self.events()
        )

    def statuses(self, logical_part: str) -> list[str]:
        """What became of a resource, oldest first."""
        return [event["ResourceStatus"] for event in self.events() if logical_part in event["LogicalResourceId"]]

    def outputs(self) -> dict[str, str]:
        """The stack's outputs."""
        stack = self.stacks.describe_stacks(StackName=self.name)["Stacks"][0]
        return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}


class Cluster:
    """A cluster as the API sees it, behind CloudFormation's back."""

    def __init__(self, base: Base, name: str) -> None:
        self.base = base
        self.name = name

    def status(self) -> str:
        """clusterStatus, or `gone`."""
        code, body = self.base.api("GET", f"/{self.name}")
        return GONE if code == 404 else str(body["clusterStatus"])

    def owner(self) -> str:
        """The ownership tag's value, empty where there is none."""
        tags = self.base.api("GET", f"/{self.name}")[1].get("tags", [])
        return next((tag["value"] for tag in tags if tag["key"] == OWNER_TAG), "")

    def max_count(self) -> int:
        """MaxCount of the one compute resource, from the configuration that the cluster has."""
        stack = self.base.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]
        values = {item["ParameterKey"]: item["ParameterValue"] for item in stack["Parameters"]}
        body = self.base.client("s3").get_object(
            Bucket=values["ResourcesS3Bucket"],
            Key=f"{values['ArtifactS3RootDirectory']}/configs/cluster-config.yaml",
            VersionId=values["ConfigVersion"],
        )["Body"]
        found: dict[str, Any] = yaml.safe_load(body.read())
        return int(found["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"])

    def make(self, configuration: dict[str, Any]) -> None:
        """Create the cluster out of band, and wait until it is complete."""
        code, body = self.base.api(
            "POST", "", {"clusterName": self.name, "clusterConfiguration": json.dumps(configuration)}
        )
        assert code == 202, body
        self.until("CREATE_COMPLETE")

    def delete(self) -> None:
        """Delete the cluster out of band, and wait until it is gone."""
        for _ in range(2):
            code, body = self.base.api("DELETE", f"/{self.name}")
            assert code in (202, 404), body
            if self.until(GONE, "DELETE_FAILED") == GONE:
                return
        raise AssertionError(f"{self.name} cannot be deleted")

    def until(self, *wanted: str, limit_s: float = LIMIT_S) -> str:
        """Wait for one of some statuses."""
        end = time.monotonic() + limit_s
        while (status := self.status()) not in wanted:
            assert time.monotonic() < end, f"{self.name} is {status}, not {' or '.join(wanted)}, after {limit_s} s"
            time.sleep(POLL_S)
        return status
