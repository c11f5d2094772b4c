"""What may broaden permissions and the CDK does not count, by hand-made changes and by an edit of an environment."""

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from ops.report import json_text, markdown, text
from ops.report.commands import review_report
from ops.review.cluster import Cluster, Key, Need, Outcome
from ops.review.permissions import not_counted_by_cdk, of_cluster
from ops.review.stacks import Stack
from ops.review.verdict import Level, Verdict, judge
from tests.ops.review.edits import CLUSTER
from tests.ops.review.synthesis import edited

pytestmark = pytest.mark.xdist_group("review-stacks")

BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"
OTHER = "arn:aws:iam::111122223333:policy/wider"


def of_key(path: str, old: object, new: object) -> tuple[str, ...]:
    key = Key(path, old, new, "SUPPORTED", Need.NOTHING)
    return of_cluster(Cluster("dev", Outcome.UPDATED, keys=(key,)))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("Iam.PermissionsBoundary", BOUNDARY, None),
        ("HeadNode.Iam.AdditionalIamPolicies", [], [{"Policy": "arn:aws:iam::aws:policy/AdministratorAccess"}]),
        ("HeadNode.Iam.S3Access[logs.example.Iam]", None, {"BucketName": "logs.example.Iam"}),
        ("HeadNode.Ssh.AllowedIps", "10.0.0.0/16", "0.0.0.0/0"),
        ("HeadNode.Imds.Secured", True, False),
        ("Imds.ImdsSupport", "v2.0", "v1.0"),
        ("Scheduling.SlurmQueues[gpu].Networking.AdditionalSecurityGroups", ["sg-1"], ["sg-2"]),
        ("LoginNodes.Pools[login].Networking.SecurityGroups", ["sg-1"], ["sg-2"]),
    ],
)
def test_keys_of_the_cluster_that_grant_or_open(path: str, old: object, new: object) -> None:
    [line] = of_key(path, old, new)
    assert line.startswith(f"cluster dev: {path}: ")


def test_other_keys_grant_nothing() -> None:
    # The name of a queue may be that of a section.
    for queue in ("Iam", "a.Iam.b"):
        assert of_key(f"Scheduling.SlurmQueues[{queue}].CapacityType", 1, 2) == ()


def test_a_new_queue_is_reported_by_what_it_grants() -> None:
    queue = {"Name": "more", "Iam": {"AdditionalIamPolicies": [{"Policy": OTHER}]}, "CapacityType": "SPOT"}
    [line] = of_key("Scheduling.SlurmQueues[more]", None, queue)
    assert "SlurmQueues[more].Iam: none -> " in line
    assert OTHER in line
    assert of_key("Scheduling.SlurmQueues[more]", queue, None) == ()
    assert of_key("Scheduling.SlurmQueues[more]", None, {"Name": "more"}) == ()


@pytest.mark.parametrize("outcome", [Outcome.CREATED, Outcome.RESUMED])
def test_a_cluster_whose_keys_are_not_compared(outcome: Outcome) -> None:
    assert len(of_cluster(Cluster("dev", outcome))) == 1


def between(kind: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Verdict:
    def side(properties: dict[str, Any] | None) -> dict[str, Stack]:
        resources: dict[str, Any] = {"Other": {"Type": "AWS::SNS::Topic"}}
        if properties is not None:
            resources["It"] = {"Type": kind, "Properties": properties}
        return {"api": Stack("api", "dev-api", "us-east-1", {"Resources": resources})}

    return judge("dev", "before", side(old), side(new))


def exports(clients: str) -> dict[str, Any]:
    return {"OpenZFSConfiguration": {"NfsExports": [{"ClientConfigurations": [{"Clients": clients}]}]}}


ROLE, NESTED, PROVIDER = "AWS::IAM::Role", "AWS::CloudFormation::Stack", "AWS::IAM::OIDCProvider"
BUCKET, VOLUME = "AWS::S3::Bucket", "AWS::FSx::Volume"


@pytest.mark.parametrize(
    ("kind", "old", "new", "count"),
    [
        (ROLE, {"PermissionsBoundary": BOUNDARY}, {}, 1),
        (ROLE, {"PermissionsBoundary": BOUNDARY}, {"PermissionsBoundary": OTHER}, 1),
        (NESTED, {"Parameters": {"PermissionsBoundaryPolicy": BOUNDARY}}, {"Parameters": {}}, 1),
        (NESTED, None, {"TemplateURL": "https://a/1"}, 1),
        (PROVIDER, {"ClientIdList": ["a"]}, {"ClientIdList": ["a", "b"]}, 1),
        (PROVIDER, None, {"ClientIdList": ["a"]}, 1),
        (BUCKET, {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True}}, {}, 1),
        (BUCKET, {}, {"AccessControl": "PublicRead"}, 1),
        (VOLUME, exports("10.0.0.0/16"), exports("*"), 1),
        (ROLE, {"Description": "a"}, {"Description": "b"}, 0),
        (NESTED, {"TemplateURL": "https://a/1"}, {"TemplateURL": "https://a/1"}, 0),
        (NESTED, {"TemplateURL": "https://a/1"}, None, 0),
        (BUCKET, {}, {"Tags": [{"Key": "a", "Value": "b"}]}, 0),
        (VOLUME, {"Name": "a"}, {"Name": "b"}, 0),
        ("AWS::SNS::Topic", {"DisplayName": "PermissionsBoundary"}, {}, 0),
    ],
)
def test_resources(kind: str, old: dict[str, Any] | None, new: dict[str, Any] | None, count: int) -> None:
    assert len(not_counted_by_cdk(between(kind, old, new))) == count


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Of a queue that is added, by ParallelCluster's own keys."""
    folder = tmp_path_factory.getbasetemp()
    edit = CLUSTER["a new queue"].replacements
    return judge("local", "revision main", edited("local", (), folder), edited("local", edit, folder))


def test_every_report_has_them_and_the_level_stays(verdict: Verdict) -> None:
    lines, report = not_counted_by_cdk(verdict), review_report(verdict)
    assert any("SlurmQueues[more].Iam: none -> " in line for line in lines), lines
    assert verdict.level is Level.SAFE
    content = io.StringIO()
    text(report, Console(file=content, width=400))
    for content_of in (content.getvalue(), markdown(report)):
        assert "SlurmQueues[more].Iam" in content_of.split("Permissions that the CDK does not count")[1]
    assert json.loads(json_text(report))["permissions"] == list(lines)


def test_a_report_without_them(verdict: Verdict) -> None:
    assert "Permissions" not in markdown(review_report(replace(verdict, cluster=Cluster("dev", Outcome.UNCHANGED))))
