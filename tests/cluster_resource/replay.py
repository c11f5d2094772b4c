"""Answers of the ParallelCluster API, whose shapes test_client.py checks against the schema in the genuine package."""

from datetime import UTC, datetime, timedelta
from typing import Any

STACK_ARN = "arn:aws:cloudformation:us-east-1:123456789012:stack/local/1"
TIME = "2026-11-21T08:00:00.000Z"
DESCRIBED = {
    "clusterName": "local",
    "region": "us-east-1",
    "version": "3.16.1",
    "cloudFormationStackStatus": "ROLLBACK_COMPLETE",
    "clusterStatus": "CREATE_FAILED",
    "cloudformationStackArn": STACK_ARN,
    "creationTime": TIME,
    "lastUpdatedTime": TIME,
    "clusterConfiguration": {"url": "NOT_AVAILABLE"},
    "computeFleetStatus": "UNKNOWN",
    "scheduler": {"type": "slurm"},
    "tags": [{"key": "trainyard:owner", "value": "stack/Cluster"}],
    "headNode": {
        "instanceId": "i-0123456789abcdef0",
        "instanceType": "c7i.xlarge",
        "launchTime": TIME,
        "privateIpAddress": "10.0.0.10",
        "state": "running",
    },
    "failures": [{"failureCode": "FsxMountFailure", "failureReason": "Failed to mount FSX."}],
}
SUMMARY = {
    "clusterName": "local",
    "region": "us-east-1",
    "version": "3.16.1",
    "cloudformationStackArn": STACK_ARN,
    "cloudformationStackStatus": "CREATE_IN_PROGRESS",
    "clusterStatus": "CREATE_IN_PROGRESS",
    "scheduler": {"type": "slurm"},
}
WARNING = {"level": "WARNING", "type": "UrlValidator", "message": "The script was not found."}
CREATED = {"cluster": SUMMARY, "validationMessages": [WARNING]}
INVALID = {
    "message": "Bad Request: Invalid cluster configuration.",
    "configurationValidationErrors": [
        {"level": "ERROR", "type": "ConfigSchemaValidator", "message": "[('Scheduling', ['Missing data'])]"}
    ],
}
CHANGE = {
    "parameter": "Scheduling.SlurmQueues[q].ComputeResources[c].MaxCount",
    "currentValue": "4",
    "requestedValue": "2",
}
FORBIDDEN = {
    "message": "Update failure",
    "updateValidationErrors": [{**CHANGE, "message": "All compute nodes must be stopped."}],
    "changeSet": [CHANGE],
}
DRY_RUN = {"message": "Request would have succeeded, but DryRun flag is set.", "changeSet": [CHANGE]}


def _event(logical_id: str, status: str, reason: str = "", physical_id: str = "") -> dict[str, str]:
    return {
        "stackId": STACK_ARN,
        "eventId": f"{logical_id}-{status}",
        "stackName": "local",
        "logicalResourceId": logical_id,
        "physicalResourceId": physical_id,
        "resourceType": "AWS::CloudFormation::Stack" if physical_id == STACK_ARN else "AWS::EC2::Instance",
        "timestamp": TIME,
        "resourceStatus": status,
        "resourceStatusReason": reason,
    }


NEWER_EVENTS = {"nextToken": "older/+=", "events": [_event("HeadNode", "UPDATE_FAILED", "no capacity")]}
OLDER_EVENTS = {
    "nextToken": "oldest",
    "events": [
        _event("local", "UPDATE_IN_PROGRESS", "User Initiated", STACK_ARN),
        _event("Old", "CREATE_FAILED", "of an earlier operation"),
    ],
}
GROUP_ARN = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/parallelcluster/local-202611210800"
STREAMS = {
    "logStreams": [
        {
            "logStreamName": "ip-10-0-0-10.i-0123456789abcdef0.cfn-init",
            "logStreamArn": f"{GROUP_ARN}:log-stream:ip-10-0-0-10.i-0123456789abcdef0.cfn-init",
            "uploadSequenceToken": "1",
            **dict.fromkeys(("creationTime", "firstEventTimestamp", "lastEventTimestamp", "lastIngestionTime"), TIME),
        }
    ]
}
FLEET = {"status": "STOPPED", "lastStatusUpdatedTime": TIME}
INSTANCE = {
    "instanceId": "i-0123456789abcdef1",
    "instanceType": "p5.48xlarge",
    "launchTime": TIME,
    "nodeType": "ComputeNode",
    "privateIpAddress": "10.0.0.11",
    "queueName": "gpu",
    "state": "running",
}
FIRST_PAGE = {"instances": [INSTANCE, INSTANCE], "nextToken": "more"}
LAST_PAGE = {"instances": [INSTANCE]}
IMAGE = {
    "architecture": "x86_64",
    "amiId": "ami-0123456789abcdef0",
    "name": "n",
    "os": "ubuntu2204",
    "version": "3.16.1",
}
IMAGES = {"images": [IMAGE]}
MESSAGE = {"message": "Cluster 'local' does not exist."}


class TokenService:
    def __init__(self) -> None:
        self.assumed: list[dict[str, Any]] = []

    def assume_role(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401
        self.assumed.append(request)
        return {
            "Credentials": {
                "AccessKeyId": f"AKID{len(self.assumed)}",
                "SecretAccessKey": "secret-key",
                "SessionToken": "session-token",
                "Expiration": datetime.now(UTC) + timedelta(seconds=request["DurationSeconds"]),
            }
        }
