"""Before a removal: what holds data, and the protection of stacks and of the database, which CloudFormation backs up.

Also what these commands do about stacks and resources in unusual states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber
from rich.console import Console

from ops.aws import status
from ops.aws.removal import holdings
from ops.aws.stacks import allow_deletion, finish_rollbacks
from ops.problem import Problem
from tests.constructs.stacks_of import environment
from tests.stubs import activated

WHEN = "2026-11-25T12:00:00Z"
UNPROTECTED = {"EnableTerminationProtection": False}
OF_STORAGE = {"StackName": "unit-storage"}


@dataclass
class Session:
    """boto3's session, whose clients answer from stubs."""

    clients: dict[str, Any] = field(default_factory=dict)
    stubs: dict[str, Stubber] = field(default_factory=dict)

    def client(self, service: str) -> Any:  # noqa: ANN401 - a boto3 client of any service
        if service not in self.clients:
            self.clients[service], self.stubs[service] = activated(service)
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
        "LastUpdatedTimestamp": WHEN,
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
    first, second = (
        {"StackResourceSummaries": [resource(*item)]}
        for item in (("AWS::RDS::DBInstance", "instance"), ("AWS::RDS::DBCluster", "unit-accounting", status))
    )
    of_database = {"StackName": "unit-database"}
    session.answer("cloudformation", "list_stack_resources", {**first, "NextToken": "second"}, **of_database)
    session.answer("cloudformation", "list_stack_resources", second, NextToken="second", **of_database)
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


def test_a_database_deleted_by_hand_does_not_stop_a_removal() -> None:
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [{**stack("database"), **UNPROTECTED}]})
    found = {"StackResourceSummaries": [resource("AWS::RDS::DBCluster", "unit-accounting")]}
    session.answer("cloudformation", "list_stack_resources", found, StackName="unit-database")
    session.client("rds")
    session.stubs["rds"].add_client_error("modify_db_cluster", "DBClusterNotFoundFault")
    allow_deletion(cast(boto3.Session, session), environment())
    session.stubs["rds"].assert_no_pending_responses()


def test_a_stack_that_was_never_created_holds_nothing() -> None:
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("storage", "REVIEW_IN_PROGRESS")]})
    assert holdings(cast(boto3.Session, session), environment()) == []


def test_a_rollback_that_fails_again_names_the_stack() -> None:
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("api", "UPDATE_ROLLBACK_FAILED")]})
    session.answer("cloudformation", "continue_update_rollback", {}, StackName="unit-api")
    again = {"Stacks": [stack("api", "UPDATE_ROLLBACK_FAILED")]}
    session.answer("cloudformation", "describe_stacks", again, StackName="unit-api")
    with pytest.raises(Problem, match="The rollback of unit-api did not complete"):
        finish_rollbacks(cast(boto3.Session, session), environment(), Console(quiet=True), 10)


def test_what_was_deleted_by_hand_is_not_shown_and_the_rest_is() -> None:
    session = Session()
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("storage")]})
    found = [resource("AWS::FSx::FileSystem", "fs-0123456789abcdef0"), resource("AWS::S3::Bucket", "unit-data")]
    session.answer("cloudformation", "list_stack_resources", {"StackResourceSummaries": found}, **OF_STORAGE)
    session.client("fsx")
    session.stubs["fsx"].add_client_error("describe_file_systems", "FileSystemNotFound")
    session.answer("s3", "get_bucket_versioning", {"Status": "Enabled"}, Bucket="unit-data")
    session.answer("s3", "list_objects_v2", {"KeyCount": 1000, "IsTruncated": True}, Bucket="unit-data")
    assert list(status._resources(cast(boto3.Session, session), environment())) == [
        ("bucket", "s3://unit-data", "versioning enabled, 1000 objects or more"),
        ("FSx::FileSystem", "fs-0123456789abcdef0", "not shown: FileSystemNotFound"),
    ]


def test_the_database_is_asked_for_by_name_and_associations_in_parts() -> None:
    """Of one request, FSx takes 50 ids and returns 25 associations."""
    session = Session()
    names = [f"dra-{number:017x}" for number in range(51)]
    found = [resource("AWS::FSx::DataRepositoryAssociation", name) for name in names]
    found.append(resource("AWS::RDS::DBCluster", "unit-accounting"))
    session.answer("cloudformation", "describe_stacks", {"Stacks": [stack("storage")]})
    session.answer("cloudformation", "list_stack_resources", {"StackResourceSummaries": found}, **OF_STORAGE)
    cluster = {
        "DBClusterIdentifier": "unit-accounting",
        "Engine": "aurora",
        "EngineVersion": "8",
        "Status": "available",
    }
    session.answer("rds", "describe_db_clusters", {"DBClusters": [cluster]}, DBClusterIdentifier="unit-accounting")

    def page(part: list[str], more: dict[str, str], **asked: object) -> None:
        links = [
            {"FileSystemId": "fs-0123456789abcdef0", "FileSystemPath": name, "DataRepositoryPath": "s3://b"}
            for name in part
        ]
        answer = {"Associations": links, **more}
        session.answer("fsx", "describe_data_repository_associations", answer, **asked)

    page(names[:25], {"NextToken": "more"}, AssociationIds=names[:50])
    page(names[25:50], {}, AssociationIds=names[:50], NextToken="more")
    page(names[50:], {}, AssociationIds=names[50:])
    database, *links = status._resources(cast(boto3.Session, session), environment())
    assert database == ("database", "unit-accounting", "accounting, aurora 8, available")
    assert [link[1] for link in links] == [f"fs-0123456789abcdef0:{name}" for name in names]
