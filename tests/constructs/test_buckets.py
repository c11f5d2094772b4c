"""The buckets: names, lifecycle and retention of the settings. The goldens and cdk-nag show that they are closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from tests.constructs.stacks_of import synthesize

ALL = {"AccessLogs", "Data", "Checkpoints", "Assets"}


def bucket(template: Template, name: str) -> Mapping[str, Any]:
    found = template.find_resources("AWS::S3::Bucket")
    return next(found[key] for key in found if key.startswith(f"Buckets{name}"))


def rules(template: Template, name: str) -> dict[str, dict[str, Any]]:
    """Lifecycle rules by id."""
    return {rule["Id"]: rule for rule in bucket(template, name)["Properties"]["LifecycleConfiguration"]["Rules"]}


def test_names_and_expiry_follow_the_settings() -> None:
    days = {"checkpoint_days": 11, "log_days": 12, "noncurrent_days": 13, "intelligent_tiering_days": 31}
    storage = synthesize(storage={"buckets": {"name_prefix": "acme-training", **days}}).storage
    checkpoints = rules(storage, "Checkpoints")
    expiry = {rule["Prefix"]: rule["ExpirationInDays"] for rule in checkpoints.values() if "Prefix" in rule}
    assert expiry == {"checkpoints/": 11, "logs/": 12, "tmp/": 7}
    assert checkpoints["expire noncurrent versions"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 13}
    transition = {"StorageClass": "INTELLIGENT_TIERING", "TransitionInDays": 31}
    assert checkpoints["tier what stays"]["Transitions"] == [transition]
    assert bucket(storage, "Data")["Properties"]["BucketName"] == "acme-training-data"
    assert bucket(storage, "AccessLogs")["Properties"]["BucketName"] == "acme-training-access-logs"


def test_data_sets_and_results_never_expire_and_tiering_can_be_left_out() -> None:
    storage = synthesize(storage={"buckets": {"intelligent_tiering_days": None}}).storage
    for name, prefixes in {"Data": set(), "Checkpoints": {"checkpoints/", "logs/", "tmp/"}}.items():
        expire = [rule for rule in rules(storage, name).values() if "ExpirationInDays" in rule]
        assert {rule["Prefix"] for rule in expire} == prefixes
        assert "tier what stays" not in rules(storage, name)


@pytest.mark.parametrize(
    ("retention", "emptied", "policies"),
    [
        ("keep", set(), ("RetainExceptOnCreate", "Retain")),
        ("delete-if-empty", {"AccessLogs", "Assets"}, ("Delete", "Retain")),
        ("delete-with-data", ALL, ("Delete", "Delete")),
    ],
)
def test_retention(retention: str, emptied: set[str], policies: tuple[str, str]) -> None:
    storage = synthesize(retention={"buckets": retention}).storage
    found = storage.find_resources("Custom::S3AutoDeleteObjects").values()
    names = {resource["Properties"]["BucketName"]["Ref"].removeprefix("Buckets")[:-8] for resource in found}
    assert names == emptied
    for name in ("Data", "Checkpoints"):
        resource = bucket(storage, name)
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == policies
