"""Differences by key, and references between resources."""

from typing import Any

import pytest

from ops.review.cdk import template_diffs
from ops.review.stacks import References, Stack, deployed
from ops.review.structure import ABSENT, differences, shown
from tests.stubs import stubbed

GPU, CPU = {"Name": "gpu", "Max": 2}, {"Name": "cpu", "Max": 4}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": 4}, ["a.b: 1 -> 3", "c: 2 -> none", "d: none -> 4"]),
        # Items with names are matched by them; others are aligned.
        ({"Queues": [GPU, CPU]}, {"Queues": [CPU, GPU | {"Max": 3}]}, ["Queues[gpu].Max: 2 -> 3"]),
        ({"a": [1, 2, 3]}, {"a": [2, 3, 4]}, ["a[0]: 1 -> none", "a[2]: none -> 4"]),
        # A flag is not a number.
        ({"a": True}, {"a": 1}, ["a: true -> 1"]),
    ],
)
def test_differences(old: object, new: object, found: list[str]) -> None:
    assert [str(difference) for difference in differences(old, new)] == found


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 500)) == 160
    assert shown(ABSENT) == "none"


NETWORK = Stack(
    "network",
    "local-network",
    "us-east-1",
    {
        "Resources": {"Subnet": {"Type": "AWS::EC2::Subnet"}},
        "Outputs": {"Out": {"Value": {"Ref": "Subnet"}, "Export": {"Name": "local-network:Out"}}},
    },
)
STORAGE = Stack("storage", "local-storage", "us-east-1", {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}})
BOTH = {"network": NETWORK, "storage": STORAGE}


def test_references_name_the_resource_across_stacks() -> None:
    references = References(BOTH).within("storage")
    assert references.resolve({"SubnetIds": [{"Fn::ImportValue": "local-network:Out"}]}) == {
        "SubnetIds": ["${network.Subnet}"]
    }
    uri = {"Fn::Join": ["", ["s3://", {"Ref": "Bucket"}, "/", {"Ref": "AWS::Region"}]]}
    assert references.resolve(uri) == "s3://${storage.Bucket}/${AWS::Region}"
    assert references.resolve({"Fn::Sub": "${Bucket.Arn}/${!Literal}"}) == "${storage.Bucket.Arn}/${Literal}"
    assert references.resolve({"Fn::ImportValue": "unknown"}) == "${unknown}"


def test_a_reference_to_a_replaced_resource_differs() -> None:
    replaced = References(BOTH, {("network", "Subnet")}).within("storage")
    assert replaced.resolve({"Fn::ImportValue": "local-network:Out"}) == "${network.Subnet (new)}"


def test_construct_paths_are_not_differences_of_templates() -> None:
    """The CDK CLI adds them to what it deploys; `trainyard diff` synthesizes without the CLI."""
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "one"}}
    other = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "two"}}
    deployed = {"Resources": {"Topic": topic | {"Metadata": {"aws:cdk:path": "stack/Topic"}}}}

    def stacks(template: dict[str, Any]) -> dict[str, Stack]:
        return {"stack": Stack("stack", "stack", "us-east-1", template)}

    assert template_diffs(stacks(deployed), stacks({"Resources": {"Topic": topic}})) == []
    [changed] = template_diffs(stacks(deployed), stacks({"Resources": {"Topic": other}}))
    assert "DisplayName" in changed.text
    assert "Metadata" not in changed.text


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED"])
def test_a_stack_whose_first_creation_failed_is_not_deployed(status: str) -> None:
    """Its template would equal the file's, and the verdict would be that nothing changes."""
    with stubbed("cloudformation") as (client, stub):
        found = {"StackName": NETWORK.name, "StackStatus": status, "CreationTime": "2026-11-25T12:00:00Z"}
        stub.add_response("describe_stacks", {"Stacks": [found]}, {"StackName": NETWORK.name})
        assert deployed(client, {"network": NETWORK}) == {}
