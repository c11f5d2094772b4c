"""All shipped environments: wired as promised, clean in cfn-lint and cdk-nag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from settings import Environment
from tests.cluster_config.references import environments
from tests.constructs.test_rules import cfn_lint
from tests.stacks.conftest import Synthesis, validated_app

IGNORED = {
    "W3005": "CDK itself writes DependsOn in addition to a GetAtt for each function and its role.",
    "W6001": "The cluster stack repeats what other stacks export, so that people look in one place.",
}
STACKS = {"network", "storage", "data-links", "images", "api", "cluster", "observability"}


def test_cfn_lint_finds_nothing_and_nag_let_the_synthesis_pass(synthesis: Synthesis) -> None:
    found = []
    for name, template in synthesis.templates.items():
        matches = cfn_lint(template, synthesis.environment.region, IGNORED)
        found += [f"{name}: {match.rule.id} {match.path}: {match.message}" for match in matches]
    assert found == []


def test_nag_and_the_validation_of_the_cdk_would_not_let_a_fault_pass(tmp_path: Path) -> None:
    app = validated_app(tmp_path)
    bucket = s3.CfnBucket(cdk.Stack(app, "Stack"), "Bucket")
    bucket.add_property_override("BucketNam", "typo")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = (tmp_path / "validation-report.json").read_text(encoding="utf-8")
    assert "AwsSolutions-S1" in report
    assert "F3002" in report


def test_stacks_carry_the_environments_name_and_what_keeps_data_is_protected(synthesis: Synthesis) -> None:
    environment, retention = synthesis.environment, synthesis.environment.retention
    keeps = {
        "network": retention.file_systems == "keep",
        "storage": "keep" in (retention.buckets, retention.file_systems),
        "images": retention.images == "keep",
    }
    accounting = environment.cluster.slurm.accounting
    own = {"database"} if accounting and accounting.own else set()
    keeps["database"] = retention.databases == "keep"
    assert set(synthesis.stacks) == STACKS | own
    for construct_id, stack in synthesis.stacks.items():
        properties = stack["properties"]
        assert properties["stackName"] == f"{environment.name}-{construct_id}"
        assert stack["environment"] == f"aws://{environment.account}/{environment.region}"
        assert properties["tags"] == {**environment.tags, "trainyard:environment": environment.name}
        assert bool(properties.get("terminationProtection")) is keeps.get(construct_id, False)


def test_stacks_wait_for_what_they_need_and_nothing_else(synthesis: Synthesis) -> None:
    waits = {name: STACKS.intersection(stack.get("dependencies", [])) for name, stack in synthesis.stacks.items()}
    has_links = any(lustre.associations for lustre in synthesis.environment.storage.lustre)
    assert "cluster" in waits.pop("observability")
    if "database" in waits:
        assert waits.pop("database") == {"network"}
        assert "database" in synthesis.stacks["cluster"]["dependencies"]
    assert waits == {
        "network": set(),
        "images": set(),
        "api": set(),
        "storage": {"network"},
        "data-links": {"storage"} if has_links else set(),
        # The cluster writes nothing before its folders are linked.
        "cluster": {"network", "storage", "data-links", "images", "api"},
    }


def test_a_permissions_boundary_is_on_every_role(synthesis: Synthesis) -> None:
    boundary = synthesis.environment.cluster.permissions_boundary
    roles = [role for stack in STACKS for role in synthesis.resources(stack, "AWS::IAM::Role").values()]
    assert roles
    assert {role["Properties"].get("PermissionsBoundary") for role in roles} == {boundary}
    [api] = synthesis.resources("api", "AWS::CloudFormation::Stack").values()
    assert api["Properties"]["Parameters"].get("PermissionsBoundaryPolicy") == boundary
    [cluster] = synthesis.resources("cluster", "Custom::ParallelCluster").values()
    assert cluster["Properties"]["Configuration"].get("Iam", {}).get("PermissionsBoundary") == boundary


def test_the_cluster_gets_its_configuration_as_a_structure(synthesis: Synthesis) -> None:
    [cluster] = synthesis.resources("cluster", "Custom::ParallelCluster").values()
    properties = cluster["Properties"]
    assert properties["ClusterName"] == synthesis.environment.cluster_name
    assert properties["ServiceTimeout"] == "3600"
    queues = properties["Configuration"]["Scheduling"]["SlurmQueues"]
    assert [queue["Name"] for queue in queues] == [queue.name for queue in synthesis.environment.cluster.queues]
    path = "Scheduling.SlurmQueues[].ComputeResources[].MaxCount"
    assert path in properties["ConfigurationTypes"]["integer"]
    # The head node's first script fetches the assets, so they are there before.
    [published] = synthesis.resources("cluster", "Custom::CDKBucketDeployment")
    assert published in cluster["DependsOn"]


FEATURES: dict[str, Callable[[Environment], object]] = {
    "accounting in an existing database": lambda environment: environment.cluster.slurm.database,
    "accounting in an own database": lambda environment: (own := environment.cluster.slurm.accounting) and own.own,
    "login nodes": lambda environment: environment.cluster.login_nodes,
    "image build": lambda environment: environment.images.build,
    "an existing VPC": lambda environment: environment.network.existing,
    "a network without internet access": lambda environment: environment.network.egress == "endpoints-only",
    "a permissions boundary": lambda environment: environment.cluster.permissions_boundary,
    "a capacity reservation": lambda environment: any(q.capacity.reservation for q in environment.cluster.queues),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_an_environment_shows_each_feature(feature: str) -> None:
    """So the checks above, a golden and a deployment to the emulator cover it."""
    assert any(FEATURES[feature](environment) for environment in environments().values())
