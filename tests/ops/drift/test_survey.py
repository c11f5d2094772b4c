"""The parts together: what counts, what is left out, what gives no verdict."""

import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber

from ops.drift import cluster, detection
from ops.drift.findings import Finding, Level, Report
from ops.drift.survey import jobs_on, not_as_deployed, survey, undeployed
from ops.problem import Problem
from ops.review.stacks import Stack
from tests.stubs import activated

from .stacks import ACCOUNT, REGION, stack_of

NAME = "demo-images"
TEMPLATE = {
    "Resources": {
        "Repository": {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "a"}},
        "Schedule": {"Type": "AWS::Scheduler::Schedule", "Properties": {}},
    }
}
WANTED = {"images": Stack("images", NAME, REGION, TEMPLATE)}


TIME = "2026-01-01T00:00:00Z"


def deployed(stubber: Stubber, status: str = "CREATE_COMPLETE") -> None:
    """CloudFormation's answers about the one stack that is deployed."""
    arn = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{NAME}/1"
    stack = {"StackName": NAME, "StackId": arn, "StackStatus": status, "CreationTime": TIME}
    resources = [
        {
            "LogicalResourceId": key,
            "PhysicalResourceId": key.lower(),
            "ResourceType": item["Type"],
            "ResourceStatus": "CREATE_COMPLETE",
            "LastUpdatedTimestamp": TIME,
        }
        for key, item in TEMPLATE["Resources"].items()
    ]
    stubber.add_response("describe_stacks", {"Stacks": [stack]})
    stubber.add_response("get_template", {"TemplateBody": json.dumps(TEMPLATE)})
    stubber.add_response("describe_stacks", {"Stacks": [stack]})
    stubber.add_response("list_stack_resources", {"StackResourceSummaries": resources})


CLUSTER = ("Custom::ParallelCluster", "demo/1", {"ClusterName": "demo"})


@pytest.mark.parametrize(
    ("status", "finding", "found", "unread"),
    [
        ("UPDATE_COMPLETE", "", ["the cluster demo was deleted outside CloudFormation"], []),
        ("DELETE_FAILED", "", ["the removal of the stack demo-images did not finish (DELETE_FAILED)"], []),
        ("UPDATE_COMPLETE", None, [], ["whether the cluster demo is as deployed: no API"]),
    ],
)
def test_what_is_not_as_deployed(
    status: str, finding: str | None, found: list[str], unread: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> tuple[list[Finding], str]:
        if finding is None:
            raise cluster.Unreadable("no API")
        return [Finding(cluster.PART, "demo", finding, "exists", "deleted")], ""

    monkeypatch.setattr(cluster, "compare", compare)
    monkeypatch.setattr(cluster, "Reader", Mock())
    stack = stack_of({"Cluster": CLUSTER}, name=NAME, status=status)
    monkeypatch.setattr("ops.drift.survey.read", lambda *_, **__: stack)
    said = not_as_deployed(Mock(), WANTED)
    assert [
        [line[: len(start)] for line, start in zip(*pair, strict=True)]
        for pair in zip(said, (found, unread), strict=True)
    ] == [found, unread]


def test_stacks_that_cannot_be_read_leave_no_verdict_on_the_cluster() -> None:
    session = Session()
    session.stubber.add_client_error("describe_stacks", "AccessDenied", "no")
    found, [unread] = not_as_deployed(session, WANTED)  # type: ignore[arg-type]
    assert found == [] and "AccessDenied" in unread


@pytest.mark.parametrize(
    ("nodes", "jobs", "words"),
    [
        (False, None, "no job runs on it"),
        (True, 1, "1 job runs on it"),
        (True, 3, "3 jobs run on it"),
        (True, None, "its running jobs could not be counted"),
    ],
)
def test_jobs_on_a_cluster_that_is_deleted(
    nodes: bool, jobs: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Mock(describe=lambda _: {"headNode": {"instanceId": "i-1"}}, has_nodes=lambda _: nodes)
    monkeypatch.setattr(cluster, "Reader", lambda *_: reader)
    counter = Mock(return_value=Mock(running_jobs=lambda instance: jobs if instance == "i-1" else 0))
    monkeypatch.setattr("ops.drift.survey.Aws", counter)
    document: tuple[str, str, dict[str, Any]] = ("AWS::SSM::Document", "api-Provider-1", {})
    stack = stack_of({"Cluster": CLUSTER, "ProviderJobCountDocument3BA": document}, name=NAME)
    monkeypatch.setattr("ops.drift.survey.read", lambda *_, **__: stack)
    assert jobs_on(Mock(), WANTED, ("demo",)) == {"demo": words}
    assert counter.call_args.kwargs == {"jobs_document": "api-Provider-1"}
    assert jobs_on(Mock(), WANTED, ()) == {}
    monkeypatch.setattr("ops.drift.survey.read", lambda *_, **__: stack_of({"Cluster": CLUSTER}, name=NAME))
    jobs_on(Mock(), WANTED, ("demo",))
    assert counter.call_args.kwargs == {"jobs_document": None}, "a deployment of an older version has no document"


class Session:
    """A boto3 session whose CloudFormation is stubbed."""

    def __init__(self) -> None:
        self.cloudformation, self.stubber = activated("cloudformation")

    def client(self, service: str) -> Any:  # noqa: ANN401 - a boto3 client
        return self.cloudformation if service == "cloudformation" else activated(service)[0]

    def survey(self, wanted: Mapping[str, Stack] = WANTED) -> Report:
        return survey(Report("demo", ACCOUNT), self, wanted)  # type: ignore[arg-type]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """An account in which CloudFormation's detection finds nothing."""
    return detects(monkeypatch)


def detects(monkeypatch: pytest.MonkeyPatch, *findings: Finding, missing: tuple[str, ...] = ()) -> Session:
    result = detection.Detected(findings, frozenset({"Repository"}), missing)
    monkeypatch.setattr(detection, "detect", lambda _client, stacks: {stack.id: result for stack in stacks})
    return Session()


def test_no_drift(session: Session) -> None:
    deployed(session.stubber)
    report = session.survey()
    assert report.level is Level.NONE
    assert not report.simulated
    assert (report.checked, dict(report.unchecked)) == (1, {"AWS::Scheduler::Schedule": 1})


def test_failed_checks_leave_no_verdict_unless_there_is_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(NAME, "Repository", "ImageTagMutability", "IMMUTABLE", "MUTABLE")
    for findings, level in (([finding], Level.DRIFT), ([], Level.UNKNOWN)):
        session = detects(monkeypatch, *findings, missing=("no permission",))
        deployed(session.stubber)
        report = session.survey()
        assert report.level is level
    assert int(report.level) == 4 and report.headline.startswith("No verdict")


def test_a_missing_stack_is_drift(session: Session) -> None:
    deployed(session.stubber)
    session.stubber.add_client_error("describe_stacks", "ValidationError", "Stack with id demo-api does not exist")
    # The second stack is asked for before the details of the first.
    session.stubber._queue.insert(2, session.stubber._queue.pop())  # type: ignore[attr-defined]
    report = session.survey({**WANTED, "api": Stack("api", "demo-api", REGION, {"Resources": {}})})
    assert [(item.part, item.actual) for item in report.findings] == [("demo-api", "missing")]


def test_nothing_deployed_or_an_operation_in_progress(session: Session) -> None:
    session.stubber.add_client_error("describe_stacks", "ValidationError", "Stack with id demo-images does not exist")
    with pytest.raises(Problem, match="None of the stacks demo-images is deployed"):
        session.survey()
    deployed(session.stubber, "UPDATE_IN_PROGRESS")
    with pytest.raises(Problem, match=r"demo-images is UPDATE_IN_PROGRESS\. Wait"):
        session.survey()


def test_no_connection(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "detect", Mock(side_effect=EndpointConnectionError(endpoint_url="https://aws")))
    deployed(session.stubber)
    with pytest.raises(Problem, match="AWS cannot be reached"):
        session.survey()


def test_undeployed() -> None:
    kind, function = "AWS::Logs::LogGroup", "AWS::Lambda::Function"
    was = stack_of(
        {
            "Same": (kind, "id", {"RetentionInDays": 7}),
            "Code": (function, "id", {"Code": {"S3Key": "bundled"}, "Timeout": 3}),
            "Changed": (kind, "id", {"RetentionInDays": 7}),
            "Removed": (kind, "id", {}),
        },
        name="demo-api",
    )
    now = {
        "Same": {"Type": kind, "Properties": {"RetentionInDays": 7}, "Metadata": {"a": 1}},
        "Code": {"Type": function, "Properties": {"Code": {"S3Key": "source"}, "Timeout": 3}},
        "Changed": {"Type": kind, "Properties": {"RetentionInDays": 30}},
        "Added": {"Type": kind},
    }
    found = undeployed({"api": Stack("api", "demo-api", REGION, {"Resources": now})}, {"api": was})
    assert found == {"demo-api": 3}
    assert undeployed({"api": Stack("api", "demo-api", REGION, was.template)}, {"api": was}) == {}
