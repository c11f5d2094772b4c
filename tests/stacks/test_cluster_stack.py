"""The cluster stack of the default environment."""

from __future__ import annotations

import json
from typing import Any

from tests.stacks.conftest import Synthesis
from trainyard import cluster_bundle


def text(value: object) -> str:
    return json.dumps(value)


def policies(local: Synthesis) -> dict[str, dict[str, Any]]:
    found = local.resources("cluster", "AWS::IAM::ManagedPolicy").values()
    return {item["Properties"]["Description"].split()[0].lower(): item["Properties"] for item in found}


def test_the_api_may_attach_the_policies_of_the_nodes(local: Synthesis) -> None:
    # The API's own policy allows ARNs with `policy/parallelcluster*`, path included.
    assert {item["Path"] for item in policies(local).values()} == {"/parallelcluster/"}
    assert not any("ManagedPolicyName" in item for item in policies(local).values())


def test_nodes_add_objects_and_never_delete_them(local: Synthesis) -> None:
    actions = {
        nodes: {
            action
            for statement in item["PolicyDocument"]["Statement"]
            for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        }
        for nodes, item in policies(local).items()
    }
    assert set(actions) == {"head", "compute", "login"}
    for allowed in actions.values():
        assert {"s3:PutObject", "ecr:BatchGetImage"} <= allowed
        assert not any("Delete" in action or action.endswith("*") for action in allowed)
        assert "ecr:PutImage" not in allowed


def test_compute_nodes_write_to_the_checkpoint_bucket_alone(local: Synthesis) -> None:
    [statement] = [
        item for item in policies(local)["compute"]["PolicyDocument"]["Statement"] if "s3:PutObject" in item["Action"]
    ]
    assert "BucketsCheckpoints" in text(statement["Resource"])
    assert "BucketsData" not in text(statement["Resource"])


def test_images_are_pulled_from_the_environments_repositories_only(local: Synthesis) -> None:
    for item in policies(local).values():
        for statement in item["PolicyDocument"]["Statement"]:
            if "ecr:BatchGetImage" in statement["Action"]:
                assert "local-images:" in text(statement["Resource"])
                assert '"*"' not in text(statement["Resource"])


def test_the_version_of_the_assets_shows_and_their_keys_stay(local: Synthesis) -> None:
    [cluster] = local.resources("cluster", "Custom::ParallelCluster").values()
    assert cluster["Properties"]["AssetsVersion"] == cluster_bundle.build().sha256
    configuration = text(cluster["Properties"]["Configuration"])
    assert "/cluster/entry/entry.sh" in configuration
    assert cluster_bundle.build().sha256 not in configuration


def test_publication_deletes_nothing(local: Synthesis) -> None:
    [published] = local.resources("cluster", "Custom::CDKBucketDeployment").values()
    assert published["Properties"]["Prune"] is False
    assert published["Properties"]["RetainOnDelete"] is True


def test_the_head_node_runs_entry_with_bucket_role_and_region(local: Synthesis) -> None:
    [cluster] = local.resources("cluster", "Custom::ParallelCluster").values()
    action = cluster["Properties"]["Configuration"]["HeadNode"]["CustomActions"]["OnNodeConfigured"]
    bucket, role, region = action["Args"]
    assert "BucketsAssets" in text(bucket)
    assert (role, region) == ("head-configured", "us-east-1")


def test_outputs_tell_how_to_connect(local: Synthesis) -> None:
    outputs = local.templates["cluster"]["Outputs"]
    assert {"ClusterName", "ClusterStatus", "Connect", "ApiUrl", "DataBucket", "CheckpointsBucket"} <= set(outputs)
    command = outputs["Connect"]["Value"]["Fn::Join"][1]
    assert command[0] == "aws ssm start-session --region us-east-1 --target "
    assert command[1]["Fn::GetAtt"][1] == "HeadNodeInstanceId"


def test_parameters_lie_under_the_environments_name(local: Synthesis) -> None:
    parameters = local.resources("cluster", "AWS::SSM::Parameter").values()
    names = {item["Properties"]["Name"] for item in parameters}
    assert all(name.startswith("/trainyard/local/") for name in names)
    assert {"/trainyard/local/cluster/name", "/trainyard/local/head-node/instance-id"} <= names
