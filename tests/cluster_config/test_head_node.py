"""The head node as it is rendered."""

from __future__ import annotations

from tests.cluster_config.builder import environment, rendered
from tests.cluster_config.references import ENTRY_SCRIPT, references
from trainyard.cluster_config import render


def test_is_private_and_open_to_nobody_by_default() -> None:
    head = rendered()["HeadNode"]
    assert head["Networking"] == {
        "SubnetId": "subnet-private0000000000",
        "AdditionalSecurityGroups": ["sg-head0000000000000"],
    }
    assert head["Ssh"] == {"AllowedIps": "127.0.0.1/32"}


def test_has_a_key_only_where_one_is_named() -> None:
    head = rendered(cluster={"head_node": {"key_name": "operators"}})["HeadNode"]
    assert head["Ssh"]["KeyName"] == "operators"


def test_takes_metadata_v2_and_from_root_only() -> None:
    configuration = rendered()
    assert configuration["Imds"] == {"ImdsSupport": "v2.0"}
    assert configuration["HeadNode"]["Imds"] == {"Secured": True}


def test_has_an_encrypted_gp3_root_volume() -> None:
    volume = {"size_gib": 200, "iops": 6000, "throughput": 500}
    head = rendered(cluster={"head_node": {"root_volume": volume}})["HeadNode"]
    assert head["LocalStorage"]["RootVolume"] == {
        "VolumeType": "gp3",
        "Size": 200,
        "Iops": 6000,
        "Throughput": 500,
        "Encrypted": True,
    }


def test_session_manager_comes_in_the_partition_of_the_region() -> None:
    for region, partition in (("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")):
        policies = rendered(region=region)["HeadNode"]["Iam"]["AdditionalIamPolicies"]
        assert policies == [
            {"Policy": f"arn:{partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"},
            {"Policy": "arn:aws:iam::123456789012:policy/parallelcluster-head"},
        ]


def test_buckets_are_read_only_and_the_assets_by_their_folder() -> None:
    # EnableWriteAccess would be s3:*, and two entries of one bucket would make each update a change.
    assert rendered()["HeadNode"]["Iam"]["S3Access"] == [
        {"BucketName": "example-assets", "KeyName": "cluster/*"},
        {"BucketName": "example-data"},
        {"BucketName": "example-checkpoints"},
    ]


def test_scripts_and_arguments_stay_the_same_whatever_the_environment() -> None:
    actions = rendered()["HeadNode"]["CustomActions"]
    assert actions == {
        "OnNodeConfigured": {"Script": ENTRY_SCRIPT, "Args": ["example-assets", "head-configured", "us-east-1"]},
        "OnNodeUpdated": {"Script": ENTRY_SCRIPT, "Args": ["example-assets", "updated", "us-east-1"]},
    }
    changed = rendered(cluster={"os": "alinux2023", "slurm": {"scaledown_minutes": 3}}, tags={"a": "b"})
    assert changed["HeadNode"]["CustomActions"] == actions


def test_own_image() -> None:
    assert "Image" not in rendered()["HeadNode"]
    head = rendered(cluster={"head_node": {"ami": "ami-0123456789abcdef0"}})["HeadNode"]
    assert head["Image"] == {"CustomAmi": "ami-0123456789abcdef0"}


def test_rendering_twice_gives_the_same() -> None:
    built = environment()
    assert render(built, references(built)) == render(built, references(built))
