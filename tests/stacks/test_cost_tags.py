"""The tag that AWS Budgets and Cost Explorer count by is on everything that costs, in the shipped environments.

CloudFormation copies the tags of a stack to its resources whose type takes tags (test_environments.py checks the
stacks' tags). What is launched or created by others has the tag in its template or configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from ops.cost.estimate import BY_USE, FREE
from settings.stacks import ENVIRONMENT_TAG

GOLDEN = Path(__file__).parents[1] / "golden"
WITHOUT_TAGS = {
    "AWS::EC2::LaunchTemplate": "instance and volume: TagSpecifications",
    "Custom::ParallelCluster": "nodes and volumes: Tags of the configuration",
    "AWS::SNS::Subscription": "charged with its topic",
    "AWS::Scheduler::Schedule": "only groups of schedules take tags; the charge is that of the function",
    "AWS::CodeStarNotifications::NotificationRule": "free",
}


def resources() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file in sorted(GOLDEN.glob("*/*.template.json")):
        for resource in json.loads(file.read_text("utf-8"))["Resources"].values():
            yield file.parent.name, resource["Type"], resource.get("Properties", {})


def costs(kind: str) -> bool:
    return kind in BY_USE or not kind.startswith(FREE)


def takes_tags(kind: str) -> bool:
    """By the registry's schema; that of older types has no `tagging`, but the property."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    tagging = schema.get("tagging", {})
    return bool(tagging.get("taggable", "Tags" in schema["properties"]))


@pytest.mark.parametrize("kind", sorted({kind for _, kind, _ in resources() if costs(kind)} - WITHOUT_TAGS.keys()))
def test_every_type_that_costs_takes_the_tags_of_its_stack(kind: str) -> None:
    assert takes_tags(kind), f"{kind} takes no tags: its costs are in no environment. Say in WITHOUT_TAGS why it may."


def test_what_the_monitoring_group_launches_has_the_tag() -> None:
    found = [(name, given) for name, kind, given in resources() if kind == "AWS::EC2::LaunchTemplate"]
    assert found
    for name, given in found:
        specifications = {one["ResourceType"]: one["Tags"] for one in given["LaunchTemplateData"]["TagSpecifications"]}
        for kind in ("instance", "volume"):
            assert ENVIRONMENT_TAG in {tag["Key"] for tag in specifications[kind]}, (name, kind)


def test_what_parallelcluster_launches_has_the_tag() -> None:
    found = [(name, given) for name, kind, given in resources() if kind == "Custom::ParallelCluster"]
    assert found
    for name, given in found:
        assert ENVIRONMENT_TAG in {tag["Key"] for tag in given["Configuration"]["Tags"]}, name


def test_backups_and_snapshots_of_file_systems_have_the_tags_of_their_source() -> None:
    for name, kind, given in resources():
        if kind == "AWS::FSx::FileSystem":
            options = given.get("LustreConfiguration") or given["OpenZFSConfiguration"]
            if options.get("AutomaticBackupRetentionDays"):
                assert options["CopyTagsToBackups"], (name, given["FileSystemType"])
            if given["FileSystemType"] == "OPENZFS":
                assert options["CopyTagsToVolumes"], name
