"""The buckets: closed, encrypted, versioned, with the lifecycle of the settings, kept by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from tests.constructs.stacks_of import Stacks, environment, synthesize

ALL = ("AccessLogs", "Data", "Checkpoints", "Assets")


@pytest.fixture(scope="module")
def made() -> Stacks:
    return synthesize(environment())


def bucket(template: Template, name: str) -> Mapping[str, Any]:
    found = template.find_resources("AWS::S3::Bucket")
    return next(found[key] for key in found if key.startswith(f"Buckets{name}"))


def rules(template: Template, name: str) -> dict[str, dict[str, Any]]:
    """Lifecycle rules by id."""
    return {rule["Id"]: rule for rule in bucket(template, name)["Properties"]["LifecycleConfiguration"]["Rules"]}


def test_no_bucket_can_be_made_public(made: Stacks) -> None:
    made.storage.resource_count_is("AWS::S3::Bucket", len(ALL))
    made.storage.all_resources_properties(
        "AWS::S3::Bucket",
        {
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            }
        },
    )


def test_buckets_encrypt_with_keys_that_nobody_can_lose(made: Stacks) -> None:
    made.storage.all_resources_properties(
        "AWS::S3::Bucket",
        {
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
            }
        },
    )


def test_buckets_refuse_what_does_not_come_by_tls(made: Stacks) -> None:
    refusal = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    made.storage.resource_properties_count_is(
        "AWS::S3::BucketPolicy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like(refusal)])}},
        len(ALL),
    )


@pytest.mark.parametrize("name", ["Data", "Checkpoints", "Assets"])
def test_buckets_with_content_are_versioned_and_log_their_accesses(made: Stacks, name: str) -> None:
    properties = bucket(made.storage, name)["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert properties["LoggingConfiguration"]["LogFilePrefix"] == f"{name.lower()}/"


def test_expiry_follows_the_settings() -> None:
    settings = environment(
        storage={
            "buckets": {"checkpoint_days": 11, "log_days": 12, "noncurrent_days": 13, "intelligent_tiering_days": 31}
        }
    )
    checkpoints = rules(synthesize(settings).storage, "Checkpoints")
    expiry = {rule["Prefix"]: rule["ExpirationInDays"] for rule in checkpoints.values() if "Prefix" in rule}
    assert expiry == {"checkpoints/": 11, "logs/": 12, "tmp/": 7}
    assert checkpoints["expire noncurrent versions"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 13}
    assert checkpoints["tier what stays"]["Transitions"] == [
        {"StorageClass": "INTELLIGENT_TIERING", "TransitionInDays": 31}
    ]


@pytest.mark.parametrize("name", ["Data", "Checkpoints"])
def test_data_sets_and_results_never_expire(made: Stacks, name: str) -> None:
    for rule in rules(made.storage, name).values():
        assert "ExpirationInDays" not in rule or rule["Prefix"] in ("checkpoints/", "logs/", "tmp/")


def test_tiering_can_be_left_out() -> None:
    storage = synthesize(environment(storage={"buckets": {"intelligent_tiering_days": None}})).storage
    assert "tier what stays" not in rules(storage, "Data")


@pytest.mark.parametrize("name", ALL)
def test_unfinished_uploads_are_cleaned_away(made: Stacks, name: str) -> None:
    assert rules(made.storage, name)["abort unfinished uploads"]["AbortIncompleteMultipartUpload"] == {
        "DaysAfterInitiation": 7
    }


def test_cloudformation_names_buckets_unless_there_is_a_prefix(made: Stacks) -> None:
    assert "BucketName" not in bucket(made.storage, "Data")["Properties"]
    named = synthesize(environment(storage={"buckets": {"name_prefix": "acme-training"}})).storage
    assert bucket(named, "Data")["Properties"]["BucketName"] == "acme-training-data"
    assert bucket(named, "AccessLogs")["Properties"]["BucketName"] == "acme-training-access-logs"


def policies(template: Template, name: str) -> tuple[str, str]:
    resource = bucket(template, name)
    return resource["DeletionPolicy"], resource["UpdateReplacePolicy"]


@pytest.mark.parametrize("name", ALL)
def test_buckets_are_kept_by_default(made: Stacks, name: str) -> None:
    assert policies(made.storage, name) == ("Retain", "Retain")
    made.storage.resource_count_is("Custom::S3AutoDeleteObjects", 0)


def emptied(template: Template) -> set[str]:
    return {
        resource["Properties"]["BucketName"]["Ref"].removeprefix("Buckets")[:-8]
        for resource in template.find_resources("Custom::S3AutoDeleteObjects").values()
    }


def test_delete_if_empty_never_empties_data_or_checkpoints() -> None:
    storage = synthesize(environment(retention={"buckets": "delete-if-empty"})).storage
    assert emptied(storage) == {"AccessLogs", "Assets"}
    assert policies(storage, "Data") == ("Delete", "Retain")
    assert policies(storage, "Checkpoints") == ("Delete", "Retain")


def test_delete_with_data_empties_all() -> None:
    storage = synthesize(environment(retention={"buckets": "delete-with-data"})).storage
    assert emptied(storage) == set(ALL)
