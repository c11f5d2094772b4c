"""The cluster stack of the default environment: what the goldens show, but not why."""

from __future__ import annotations

import json

import pytest

from tests.constructs.stacks_of import listed
from tests.stacks.conftest import Synthesis
from trainyard import cluster_bundle

pytestmark = pytest.mark.xdist_group("stacks-local")


def test_nodes_add_objects_and_never_delete_them(local: Synthesis) -> None:
    found = local.resources("cluster", "AWS::IAM::ManagedPolicy").values()
    policies = {item["Properties"]["Description"].split()[0]: item["Properties"] for item in found}
    assert set(policies) == {"Head", "Compute", "Login"}
    for nodes, policy in policies.items():
        # The API's own policy allows ARNs with `policy/parallelcluster*`, path included.
        assert policy["Path"] == "/parallelcluster/"
        resources: dict[str, list[str]] = {}
        for statement in policy["PolicyDocument"]["Statement"]:
            for action in listed(statement["Action"]):
                assert "Delete" not in action and not action.endswith(("*", "PutImage"))
                resources.setdefault(action, []).append(json.dumps(statement["Resource"]))
        [objects], [images] = resources["s3:PutObject"], resources["ecr:BatchGetImage"]
        assert "BucketsCheckpoints" in objects and ("BucketsData" in objects) is (nodes != "Compute")
        assert "local-images:" in images and '"*"' not in objects + images


def test_the_version_of_the_assets_shows_and_their_keys_stay(local: Synthesis) -> None:
    [cluster] = local.resources("cluster", "Custom::ParallelCluster").values()
    assert cluster["Properties"]["AssetsVersion"] == cluster_bundle.build().sha256
    configuration = json.dumps(cluster["Properties"]["Configuration"])
    assert "/cluster/entry/entry.sh" in configuration
    assert cluster_bundle.build().sha256 not in configuration
