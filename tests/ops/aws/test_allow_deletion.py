"""Before a removal: the protection of stacks, and of the database that CloudFormation then takes a snapshot of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber

from ops.aws.stacks import allow_deletion
from tests.constructs.stacks_of import environment

WHEN = "2026-11-25T12:00:00Z"


@dataclass
class Session:
    """boto3's session, whose clients answer from stubs."""

    clients: dict[str, Any] = field(default_factory=dict)
    stubs: dict[str, Stubber] = field(default_factory=dict)

    def client(self, service: str) -> Any:  # noqa: ANN401 - a boto3 client of any service
        if service not in self.clients:
            session: Any = boto3.Session(region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
            self.clients[service] = session.client(service)
            self.stubs[service] = Stubber(self.clients[service])
            self.stubs[service].activate()
        return self.clients[service]

    def answer(self, service: str, operation: str, answer: dict[str, Any], **asked: object) -> None:
        self.client(service)
        self.stubs[service].add_response(operation, answer, asked)


def stack(part: str, status: str = "CREATE_COMPLETE") -> dict[str, Any]:
    name = f"unit-{part}"
    return {
        "StackName": name,
        "StackId": f"arn:{name}",
        "StackStatus": status,
        "CreationTime": WHEN,
        "EnableTerminationProtection": True,
    }


def resource(kind: str, name: str, status: str = "CREATE_COMPLETE") -> dict[str, str]:
    return {
        "LogicalResourceId": name,
        "PhysicalResourceId": name,
        "ResourceType": kind,
        "ResourceStatus": status,
        "Timestamp": WHEN,
    }


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "DELETE_COMPLETE"])
def test_a_removal_lifts_the_protection_of_the_database(status: str) -> None:
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("database")]})
    session.answer(
        "cloudformation",
        "update_termination_protection",
        {},
        StackName="unit-database",
        EnableTerminationProtection=False,
    )
    found = [resource("AWS::RDS::DBCluster", "unit-accounting", status), resource("AWS::RDS::DBInstance", "instance")]
    session.answer("cloudformation", "describe_stack_resources", {"StackResources": found}, StackName="unit-database")
    session.client("rds")
    if status == "CREATE_COMPLETE":
        asked = {"DBClusterIdentifier": "unit-accounting", "DeletionProtection": False, "ApplyImmediately": True}
        session.answer("rds", "modify_db_cluster", {}, **asked)
    allow_deletion(cast(boto3.Session, session), environment())
    for stub in session.stubs.values():
        stub.assert_no_pending_responses()


def test_a_deployment_lifts_no_protection_of_a_database() -> None:
    """It does for stacks whose first creation failed, which hold nothing."""
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("database")]})
    allow_deletion(cast(boto3.Session, session), environment(), ("ROLLBACK_COMPLETE",))
    assert "rds" not in session.clients
