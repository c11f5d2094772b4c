"""The parts together: what counts, what is left out, what gives no verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber

from ops.drift.cluster import DeployedCluster, Reader, Unreadable
from ops.drift.deployed_stack import DeployedStack
from ops.drift.detection import Detected
from ops.drift.findings import Finding, Level, Report
from ops.drift.survey import Account, survey, undeployed
from ops.problem import Problem
from ops.review.stacks import Stack

from .stacks import ACCOUNT, REGION, stack_of, stubbed

NAME = "demo-images"
TEMPLATE = {
    "Resources": {
        "Repository": {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "a"}},
        "Schedule": {"Type": "AWS::Scheduler::Schedule", "Properties": {}},
    }
}
WANTED = {"images": Stack("images", NAME, REGION, TEMPLATE)}


def told(stubber: Stubber, status: str = "CREATE_COMPLETE") -> None:
    """CloudFormation's answers about the one stack that is deployed."""
    stack = {
        "StackName": NAME,
        "StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{NAME}/1",
        "StackStatus": status,
        "CreationTime": "2026-01-01T00:00:00Z",
    }
    resources = [
        {
            "LogicalResourceId": key,
            "PhysicalResourceId": key.lower(),
            "ResourceType": item["Type"],
            "ResourceStatus": "CREATE_COMPLETE",
            "LastUpdatedTimestamp": "2026-01-01T00:00:00Z",
        }
        for key, item in TEMPLATE["Resources"].items()
    ]
    stubber.add_response("describe_stacks", {"Stacks": [stack]})
    stubber.add_response("get_template", {"TemplateBody": json.dumps(TEMPLATE)})
    stubber.add_response("describe_stacks", {"Stacks": [stack]})
    stubber.add_response("list_stack_resources", {"StackResourceSummaries": resources})


def account() -> tuple[Account, Stubber]:
    client, stubber = stubbed("cloudformation")
    others = [stubbed(name)[0] for name in ("ec2", "fsx", "iam", "s3")]
    return Account(client, *others), stubber


def no_reader(place: DeployedCluster, region: str) -> Reader:
    raise Unreadable(f"nobody asks for {place.name} in {region}")


def detects(*findings: Finding, missing: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 - a function
    def detect(_client: object, stacks: Iterable[DeployedStack]) -> Mapping[str, Detected]:
        return {stack.id: Detected(findings, frozenset({"Repository"}), missing) for stack in stacks}

    return detect


def run(detect: Any, wanted: Mapping[str, Stack] = WANTED) -> Report:  # noqa: ANN401 - a function
    clients, stubber = account()
    told(stubber)
    return survey(Report("demo", ACCOUNT), clients, wanted, reader_of=no_reader, detect=detect)


def test_nothing() -> None:
    report = run(detects())
    assert report.level is Level.NONE
    assert (report.checked, dict(report.unchecked)) == (1, {"AWS::Scheduler::Schedule": 1})


def test_drift_is_drift_even_where_not_everything_was_seen() -> None:
    finding = Finding(NAME, "Repository", "ImageTagMutability", "IMMUTABLE", "MUTABLE")
    assert run(detects(finding, missing=("no right",))).level is Level.DRIFT


def test_no_drift_and_not_everything_seen_is_no_verdict() -> None:
    report = run(detects(missing=("no right",)))
    assert report.level is Level.UNKNOWN and int(report.level) == 4
    assert report.headline.startswith("No verdict")


def test_a_stack_that_is_not_there_is_drift() -> None:
    clients, stubber = account()
    told(stubber)
    stubber.add_client_error("describe_stacks", "ValidationError", "Stack with id demo-api does not exist")
    # The second stack is asked for before the details of the first.
    stubber._queue.insert(2, stubber._queue.pop())  # type: ignore[attr-defined]
    wanted = {**WANTED, "api": Stack("api", "demo-api", REGION, {"Resources": {}})}
    report = survey(Report("demo", ACCOUNT), clients, wanted, reader_of=no_reader, detect=detects())
    assert [(item.part, item.actual) for item in report.findings] == [("demo-api", "missing")]


def test_nothing_deployed() -> None:
    clients, stubber = account()
    stubber.add_client_error("describe_stacks", "ValidationError", "Stack with id demo-images does not exist")
    with pytest.raises(Problem, match="None of the stacks demo-images is deployed"):
        survey(Report("demo", ACCOUNT), clients, WANTED)


def test_something_at_work() -> None:
    clients, stubber = account()
    told(stubber, "UPDATE_IN_PROGRESS")
    with pytest.raises(Problem, match=r"demo-images is UPDATE_IN_PROGRESS\. Wait"):
        survey(Report("demo", ACCOUNT), clients, WANTED)


def test_no_connection() -> None:
    def detect(_client: object, _stacks: object) -> Mapping[str, Detected]:
        raise EndpointConnectionError(endpoint_url="https://cloudformation")

    with pytest.raises(Problem, match="AWS cannot be reached"):
        run(detect)


def test_undeployed() -> None:
    def resource(kind: str, **properties: object) -> tuple[str, str, dict[str, object]]:
        return kind, "id", properties

    stands = stack_of(
        {
            "Same": resource("AWS::Logs::LogGroup", RetentionInDays=7),
            "Code": resource("AWS::Lambda::Function", Code={"S3Key": "bundled"}, Timeout=3),
            "Changed": resource("AWS::Logs::LogGroup", RetentionInDays=7),
            "Removed": resource("AWS::Logs::LogGroup"),
        },
        name="demo-api",
    )
    now = {
        "Same": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}, "Metadata": {"a": 1}},
        "Code": {"Type": "AWS::Lambda::Function", "Properties": {"Code": {"S3Key": "source"}, "Timeout": 3}},
        "Changed": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 30}},
        "Added": {"Type": "AWS::Logs::LogGroup"},
    }
    found = undeployed({"api": Stack("api", "demo-api", REGION, {"Resources": now})}, {"api": stands})
    assert found == {"demo-api": 3}
    assert undeployed({"api": Stack("api", "demo-api", REGION, stands.template)}, {"api": stands}) == {}
