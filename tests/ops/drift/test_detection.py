"""CloudFormation's drift detection, and what it leaves to this command."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from ops.drift import ACTIONS, access, detection, fsx
from ops.drift.values import Values
from ops.review.structure import ABSENT
from tests.stubs import activated

from .stacks import stack_of

ROOT = Path(__file__).resolve().parents[3]
TIME = "2026-01-01T00:00:00Z"
DETECTION = "b78ac9b0-dec1-11e7-a451-503a3example"


def drift(name: str, status: str, **more: object) -> dict[str, Any]:
    return {
        "StackId": "arn",
        "LogicalResourceId": name,
        "PhysicalResourceId": name.lower(),
        "ResourceType": "AWS::Logs::LogGroup",
        "StackResourceDriftStatus": status,
        "Timestamp": TIME,
        **more,
    }


def detected(
    monkeypatch: pytest.MonkeyPatch, statuses: list[dict[str, Any]], *pages: dict[str, Any]
) -> detection.Detected:
    stack = stack_of({})
    client, stubber = activated("cloudformation")
    stubber.add_response("detect_stack_drift", {"StackDriftDetectionId": DETECTION}, {"StackName": stack.id})
    for status in statuses:
        answer = {"StackId": stack.id, "StackDriftDetectionId": DETECTION, "Timestamp": TIME, **status}
        stubber.add_response("describe_stack_drift_detection_status", answer)
    for page in pages:
        stubber.add_response("describe_stack_resource_drifts", page)
    waited: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(waited), sleep=waited.append)
    monkeypatch.setattr(detection, "time", clock)
    found = detection.detect(client, [stack])[stack.id]
    stubber.assert_no_pending_responses()
    return found


def test_pages_of_results_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = [("/RetentionInDays", "7", "1", "NOT_EQUAL"), ("/Tags/0", "null", '{"Key":"a"}', "ADD")]
    keys = ("PropertyPath", "ExpectedValue", "ActualValue", "DifferenceType")
    differences = [dict(zip(keys, values, strict=True)) for values in properties]
    modified = drift("Log", "MODIFIED", PropertyDifferences=differences)
    found = detected(
        monkeypatch,
        [{"DetectionStatus": "DETECTION_IN_PROGRESS"}, {"DetectionStatus": "DETECTION_COMPLETE"}],
        {"StackResourceDrifts": [modified, drift("Same", "IN_SYNC")], "NextToken": "more"},
        {"StackResourceDrifts": [drift("Gone", "DELETED"), drift("Other", "NOT_CHECKED")]},
    )
    assert [(item.subject, item.path, item.expected, item.actual) for item in found.findings] == [
        ("Log (AWS::Logs::LogGroup log)", "RetentionInDays", "7", "1"),
        ("Log (AWS::Logs::LogGroup log)", "Tags.0", ABSENT, '{"Key":"a"}'),
        ("Gone (AWS::Logs::LogGroup gone)", "", "exists", "deleted"),
    ]
    assert found.checked == {"Log", "Same", "Gone"} and found.missing == ()


def test_an_incomplete_detection_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = detected(
        monkeypatch,
        [{"DetectionStatus": "DETECTION_FAILED", "DetectionStatusReason": "no right to read Log"}],
        {"StackResourceDrifts": [drift("Log", "UNKNOWN", DriftStatusReason="AccessDenied"), drift("Gone", "DELETED")]},
    )
    assert [item.actual for item in found.findings] == ["deleted"]
    assert found.missing == ("demo: no right to read Log", "demo: Log could not be compared: AccessDenied")


def test_a_detection_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = [{"DetectionStatus": "DETECTION_IN_PROGRESS"}] * (int(detection.LIMIT_S / detection.POLL_S) + 2)
    found = detected(monkeypatch, endless, {"StackResourceDrifts": []})
    assert found.missing == (f"demo: the detection was still running after {detection.LIMIT_S} s",)


def test_a_stack_that_cannot_be_compared() -> None:
    broken = stack_of({}, status="ROLLBACK_COMPLETE")
    client, stubber = activated("cloudformation")
    stubber.add_client_error("detect_stack_drift", "ValidationError", "in state ROLLBACK_COMPLETE")
    assert detection.detect(client, [broken])[broken.id].missing == ("demo: in state ROLLBACK_COMPLETE",)
    assert [item.actual for item in detection.statuses([broken, stack_of({})])] == ["ROLLBACK_COMPLETE"]


def test_actions_are_operations_of_aws() -> None:
    session = botocore.session.get_session()
    for action in ACTIONS:
        service, operation = action.split(":")
        assert operation in session.get_service_model(service).operation_names, action
    assert "cloudformation:DetectStackResourceDrift" in ACTIONS


def test_what_cloudformation_cannot_read_is_compared_here() -> None:
    """Of the types that are deployed, as the registry's schemas say."""
    spec = importlib.util.find_spec("cfnlint")
    assert spec is not None and spec.origin is not None
    schemas = Path(spec.origin).parent / "data" / "schemas"
    hashes = json.loads((schemas / "providers" / "us-east-1.json").read_text())
    goldens = [ROOT / "tests" / "golden" / file.stem for file in (ROOT / "environments").glob("*.yaml")]
    templates = [json.loads(path.read_text()) for folder in goldens for path in folder.glob("*.template.json")]
    kinds = {item["Type"] for template in templates for item in template["Resources"].values()}
    unread = {
        kind
        for kind in kinds
        if kind in hashes
        and "read" not in json.loads((schemas / "resources" / f"{hashes[kind]}.json").read_text()).get("handlers", {})
    }
    # The report names topic policies among the resources that are not compared.
    assert unread == {fsx.FILE_SYSTEM, access.POLICY, "AWS::SNS::TopicPolicy"}


@pytest.mark.parametrize("kind", [fsx.VOLUME, fsx.ASSOCIATION])
def test_a_missing_physical_id_is_a_deleted_resource(kind: str) -> None:
    stack = stack_of({"Thing": (kind, "", {})})
    client, _ = activated("fsx")
    assert [item.actual for item in fsx.check(client, stack, Values([stack]))] == ["deleted"]
