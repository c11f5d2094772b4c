"""CloudFormation's own drift detection, run on all stacks at once.

`cdk drift` (drift() of @aws-cdk/toolkit-lib) is not used: it skips nested stacks and the cluster's own stack, and
returns counts and text, not the resources that it compared.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.findings import Finding
from ops.review.structure import ABSENT

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient

LIMIT_S = 900
POLL_S = 2.0
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
"""Stack statuses in which the next update can start."""


@dataclass(frozen=True)
class Detected:
    """CloudFormation's result for one stack.

    Attributes:
        findings: resources that were modified or deleted.
        checked: logical ids of the resources that it compared; it does not compare every type.
        missing: why resources that it should compare were not compared.
    """

    findings: tuple[Finding, ...] = ()
    checked: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()


def detect(client: CloudFormationClient, stacks: Collection[DeployedStack]) -> dict[str, Detected]:
    """Start a detection on each stack, wait for all, and read the results, by the stack's ARN."""
    started: dict[str, str] = {}
    found: dict[str, Detected] = {}
    for stack in stacks:
        try:
            started[stack.id] = client.detect_stack_drift(StackName=stack.id)["StackDriftDetectionId"]
        except ClientError as error:
            found[stack.id] = _failed(stack, error)
    until = time.monotonic() + LIMIT_S
    for stack in stacks:
        if stack.id in started:
            try:
                found[stack.id] = _result(client, stack, _wait(client, started[stack.id], until))
            except ClientError as error:
                found[stack.id] = _failed(stack, error)
    return found


def _failed(stack: DeployedStack, error: ClientError) -> Detected:
    return Detected(missing=(f"{stack.name}: {error.response.get('Error', {}).get('Message') or error}",))


def _wait(client: CloudFormationClient, detection: str, until: float) -> str:
    """Why the detection is incomplete; empty where it is complete."""
    while True:
        answer = client.describe_stack_drift_detection_status(StackDriftDetectionId=detection)
        if answer["DetectionStatus"] == "DETECTION_COMPLETE":
            return ""
        if answer["DetectionStatus"] == "DETECTION_FAILED":
            return answer.get("DetectionStatusReason", "the detection failed without a reason")
        if time.monotonic() > until:
            return f"the detection was still running after {LIMIT_S} s"
        time.sleep(POLL_S)


def _result(client: CloudFormationClient, stack: DeployedStack, trouble: str) -> Detected:
    findings: list[Finding] = []
    checked, missing = set(), [f"{stack.name}: {trouble}"] if trouble else []
    token: dict[str, Any] = {}
    while True:
        # Has no paginator in botocore.
        page = client.describe_stack_resource_drifts(StackName=stack.id, **token)
        for drift in page["StackResourceDrifts"]:
            status = drift["StackResourceDriftStatus"]
            if status in ("IN_SYNC", "MODIFIED", "DELETED"):
                checked.add(drift["LogicalResourceId"])
                findings += _findings(stack, drift)
            elif status == "UNKNOWN":
                reason = drift.get("DriftStatusReason", "no reason given")
                missing.append(f"{stack.name}: {drift['LogicalResourceId']} could not be compared: {reason}")
        if "NextToken" not in page:
            return Detected(tuple(findings), frozenset(checked), tuple(missing))
        token = {"NextToken": page["NextToken"]}


def _findings(stack: DeployedStack, drift: Mapping[str, Any]) -> Iterator[Finding]:
    what = Resource(drift["LogicalResourceId"], drift["ResourceType"], drift.get("PhysicalResourceId", "")).subject
    if drift["StackResourceDriftStatus"] == "DELETED":
        yield Finding(stack.name, what, "", "exists", "deleted")
        return
    for difference in drift.get("PropertyDifferences", []):
        path = difference["PropertyPath"].strip("/").replace("/", ".")
        values = (difference.get(key) for key in ("ExpectedValue", "ActualValue"))
        expected, actual = (ABSENT if value in (None, "null") else value for value in values)
        yield Finding(stack.name, what, path, expected, actual)


def statuses(stacks: Iterable[DeployedStack]) -> Iterator[Finding]:
    """The stacks whose last operation failed, so that someone must act."""
    for stack in stacks:
        if stack.status not in UPDATABLE:
            yield Finding(stack.name, "the stack", "status", "CREATE_COMPLETE or UPDATE_COMPLETE", stack.status)
