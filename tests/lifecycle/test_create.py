"""Creations: what CloudFormation and the user are shown, and what is left."""

from __future__ import annotations

import base64
import json

import pytest
import yaml

from local.control import Limit, Outcome

from .deployment import Base
from .life import GONE, Cluster, Life
from .template import StackSpec, configuration

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"cluster": "0"}, "ClusterName is '0'", id="name"),
        pytest.param({"instance_type": "c7i.nonsense"}, "c7i.nonsense", id="instance type"),
        pytest.param({"extra": (("Nonsense", "1"),)}, "Nonsense", id="key"),
    ],
)
def test_invalid(life: Life, cluster: Cluster, base: Base, changes: dict[str, str], said: str) -> None:
    assert life.create(StackSpec(cluster.name).but(**changes)) == "ROLLBACK_COMPLETE", life.story()
    [reason] = life.failures()
    assert said in reason
    assert cluster.status() == GONE
    assert not [call for call in base.control.calls() if call.method == "DELETE"]
    assert life.delete() == "DELETE_COMPLETE"


def test_taken_name(life: Life, cluster: Cluster, base: Base) -> None:
    """The rollback's Delete must leave a cluster alone that somebody else made."""
    cluster.make(configuration(base, StackSpec(cluster.name)))
    assert life.create(StackSpec(cluster.name)) == "ROLLBACK_COMPLETE", life.story()
    [reason] = life.failures()
    assert "does not belong to this resource" in reason
    assert life.delete() == "DELETE_COMPLETE"
    assert cluster.status() == "CREATE_COMPLETE"
    assert {call.method for call in base.control.calls()} == {"GET"}


def test_what_the_head_node_boots_from(cluster: Cluster, base: Base) -> None:
    """User data, metadata and configuration are where the head node asks for them; tests/slurm boots one."""
    cluster.make(configuration(base, StackSpec(cluster.name)))
    template = "HeadNodeLaunchTemplate"
    answer = base.client("cloudformation").describe_stack_resource(StackName=cluster.name, LogicalResourceId=template)
    found = answer["StackResourceDetail"]
    files = json.loads(found["Metadata"])["AWS::CloudFormation::Init"]["deployConfigFiles"]["files"]
    by_name = {path.rpartition("/")[2]: file["content"] for path, file in files.items()}
    assert by_name["wait_condition_handle.txt"].startswith(base.emulator.endpoint)
    node = json.loads(by_name["dna.json"])["cluster"]
    assert (node["stack_name"], node["region"]) == (cluster.name, base.emulator.region)
    [version] = base.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=found["PhysicalResourceId"], Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    script = base64.b64decode(version["LaunchTemplateData"]["UserData"]).decode()
    assert f"/cfn-init -s {cluster.name} -v -c default -r {template} --region {base.emulator.region} " in script
    stored = base.client("s3").get_object(Bucket=node["cluster_s3_bucket"], Key=node["cluster_config_s3_key"])["Body"]
    # With its defaults, which custom_action_executor.py relies on.
    assert yaml.safe_load(stored.read())["HeadNode"]["CustomActions"] is None


def test_failure_and_again(life: Life, cluster: Cluster, base: Base) -> None:
    base.control.fail_create(cluster.name, "Failed to execute OnNodeConfigured script 1, return code: 7", after_s=2)
    assert life.create(StackSpec(cluster.name)) == "ROLLBACK_COMPLETE", life.story()
    [reason] = life.failures()
    assert "OnNodeConfiguredExecutionFailure" in reason
    assert "return code: 7" in reason
    assert cluster.status() == GONE
    assert life.delete() == "DELETE_COMPLETE"
    assert life.create(StackSpec(cluster.name)) == "CREATE_COMPLETE", life.story()


def test_silent_head_node(life: Life, cluster: Cluster, base: Base) -> None:
    base.control.outcome(Outcome(cluster.name, "create", "silent"))
    base.control.limit(Limit(cluster.name, wait_condition_s=4))
    assert life.create(StackSpec(cluster.name)) == "ROLLBACK_COMPLETE", life.story()
    [reason] = life.failures()
    assert "HeadNodeBootstrapFailure" in reason
    assert cluster.status() == GONE


def test_sibling_fails_after_the_creation(life: Life, cluster: Cluster) -> None:
    assert life.create(StackSpec(cluster.name, broken_sibling=True)) == "ROLLBACK_COMPLETE", life.story()
    assert "CREATE_COMPLETE" in life.statuses("Cluster")
    assert cluster.status() == GONE
    assert life.delete() == "DELETE_COMPLETE"
