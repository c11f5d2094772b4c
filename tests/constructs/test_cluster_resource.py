"""The cluster's resource, and the resources that wait for operations of more than an hour."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from trainyard.cluster_resource import ClusterResource, links_for


def template(timeout_minutes: int, answer_minutes: int = 55, **others: int) -> Template:
    stack = cdk.Stack()
    cluster = ClusterResource(
        stack,
        "Cluster",
        name="training",
        region="us-east-1",
        configuration={"Region": "us-east-1"},
        api=Mock(url="https://api.example/prod", user_role_arn="arn:aws:iam::1:role/r", version="3.16.1"),
        service_token="arn:aws:lambda:us-east-1:1:function:f",
        assets_version="1",
        timeout_minutes=timeout_minutes,
        answer_minutes=answer_minutes,
        updates={"StopFleet": "never"},
        **others,  # type: ignore[arg-type]
    )
    cdk.CfnOutput(stack, "Head", value=cluster.head_node_instance_id)
    return Template.from_stack(stack)


def of_type(found: Template, kind: str) -> dict[str, Any]:
    return dict(found.find_resources(kind))


def test_another_generation_is_a_changed_property() -> None:
    """Without one, a cluster keeps the template that it had before this property existed."""
    for generation, expected in ((0, None), (2, 2)):
        [cluster] = of_type(template(55, generation=generation), "Custom::ParallelCluster").values()
        assert cluster["Properties"].get("Generation") == expected


def test_within_the_hour_no_other_resource_waits() -> None:
    found = template(55)
    [cluster] = of_type(found, "Custom::ParallelCluster")
    assert of_type(found, "Custom::ParallelClusterWait") == of_type(found, "Custom::ParallelClusterGone") == {}
    assert found.find_outputs("Head")["Head"]["Value"]["Fn::GetAtt"] == [cluster, "HeadNodeInstanceId"]


@pytest.mark.parametrize(
    ("timeout", "answer", "links"), [(55, 55, 0), (56, 55, 1), (109, 55, 1), (110, 55, 2), (720, 55, 13), (10, 1, 10)]
)
def test_the_windows_together_outlast_the_time_limit(timeout: int, answer: int, links: int) -> None:
    """Where there are links, (links + 1) * answer is more than the time limit."""
    assert links_for(timeout, answer) == links


def test_waits_follow_the_cluster_one_after_the_other_and_give_the_attributes() -> None:
    found = template(120)
    [cluster] = of_type(found, "Custom::ParallelCluster")
    waits = of_type(found, "Custom::ParallelClusterWait")
    first, last = sorted(waits, key=lambda name: -int(waits[name]["Properties"]["WaitsBehind"]))
    assert cluster in waits[first]["DependsOn"] and first in waits[last]["DependsOn"]
    for link in waits.values():
        assert link["Properties"]["Execution"] == {"Fn::GetAtt": [cluster, "Execution"]}
    assert [waits[name]["Properties"]["WaitsBehind"] for name in (first, last)] == [1, 0]
    assert found.find_outputs("Head")["Head"]["Value"]["Fn::GetAtt"] == [last, "HeadNodeInstanceId"]


def test_nothing_waits_for_a_cluster_that_stays_as_it_is() -> None:
    """A Wait would fail for a predecessor that is already gone, which the cluster's own resource accepts."""
    found = template(120, frozen=True)
    [cluster] = of_type(found, "Custom::ParallelCluster").values()
    assert (cluster["Properties"]["WaitsBehind"], of_type(found, "Custom::ParallelClusterWait")) == (0, {})
    assert len(of_type(found, "Custom::ParallelClusterGone")) == 2


def test_what_waits_for_a_deletion_is_deleted_after_the_cluster_and_knows_its_owner() -> None:
    found = template(100)
    [cluster] = of_type(found, "Custom::ParallelCluster")
    [gone] = of_type(found, "Custom::ParallelClusterGone")
    resource = of_type(found, "Custom::ParallelCluster")[cluster]
    assert gone in resource["DependsOn"] and resource["Properties"]["WaitsBefore"] == 1
    owner = of_type(found, "Custom::ParallelClusterGone")[gone]["Properties"]["Owner"]
    assert owner == {"Fn::Join": ["", [{"Ref": "AWS::StackId"}, f"/{cluster}"]]}
