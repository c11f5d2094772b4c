"""Regions, zones, subnets, images and names of buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ops import pcluster_subprocess
from ops.preflight.checks import addresses, buckets, images, offerings, regions
from ops.preflight.results import CheckResult, Verdict
from settings import Environment, environment_file, load
from settings.rules import findings
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import ZONE, Account, context, instance

VERSION = "3.16.1"
OFFICIAL = pcluster_subprocess.Images(
    VERSION, f"aws-parallelcluster-{VERSION}-ubuntu-2204-lts-hvm-x86_64*", False, "its:version"
)


def verdicts(lines: Iterator[CheckResult]) -> list[Verdict]:
    """Their verdicts alone."""
    return [line.verdict for line in lines]


# --- deployment types ------------------------------------------------------------------------------------------------
def stored(region: str, zone: str, deployment: str = "SINGLE_AZ_HA_2", **lustre: Any) -> Environment:  # noqa: ANN401
    """One file system of each kind in a region."""
    return environment(
        region=region,
        network={"zone": zone},
        storage={
            "lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 4800, **lustre}],
            "openzfs": {
                "capacity_gib": 64,
                "throughput": 160,
                "deployment": deployment,
                "volumes": [{"name": "home", "mount": "/home"}],
            },
        },
    )


def test_ohio_has_everything() -> None:
    assert verdicts(regions.check(context(Account(), stored("us-east-2", "use2-az1", efa=True)))) == [Verdict.OK] * 2


def test_jakarta_lacks_both_and_the_lines_say_what_it_has() -> None:
    lustre, openzfs = regions.check(context(Account(), stored("ap-southeast-3", "apse3-az1")))
    assert (lustre.verdict, openzfs.verdict) == (Verdict.FAULT, Verdict.FAULT)
    assert "using-fsx-lustre.html" in lustre.todo
    assert openzfs.found == "SINGLE_AZ_1, SINGLE_AZ_HA_1"
    assert "read on 2026-" in openzfs.asked
    _, other = regions.check(context(Account(), stored("ap-southeast-3", "apse3-az1", "SINGLE_AZ_HA_1")))
    assert other.verdict is Verdict.OK


def test_what_stands_says_more_than_the_table() -> None:
    there = [
        {
            "FileSystemId": "fs-0",
            "FileSystemType": "LUSTRE",
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 1000},
        },
        {
            "FileSystemId": "fs-1",
            "FileSystemType": "OPENZFS",
            "OpenZFSConfiguration": {"DeploymentType": "SINGLE_AZ_HA_2"},
        },
    ]
    wanted = stored("ap-southeast-3", "apse3-az1", throughput=1000)
    assert verdicts(regions.check(context(Account(file_systems=there), wanted))) == [Verdict.OK] * 2
    with_efa = stored("ap-southeast-3", "apse3-az1", throughput=1000, efa=True)
    assert verdicts(regions.check(context(Account(file_systems=there), with_efa)))[0] is Verdict.FAULT


def test_a_limited_region_has_low_throughput_without_efa() -> None:
    for throughput, verdict in ((250, Verdict.OK), (500, Verdict.FAULT)):
        lustre, *_ = regions.check(context(Account(), stored("ca-west-1", "caw1-az1", throughput=throughput)))
        assert lustre.verdict is verdict


def test_a_region_beside_the_table_is_unknown_and_a_zone_perhaps_without_it_a_warning() -> None:
    _, openzfs = regions.check(context(Account(), stored("eu-west-3", "euw3-az1")))
    assert openzfs.verdict is Verdict.UNKNOWN
    assert "fsx_regions.json" in openzfs.todo
    _, warned = regions.check(context(Account(), stored("us-east-1", ZONE)))
    assert warned.verdict is Verdict.WARNING


def test_the_table_names_regions_and_types_that_exist() -> None:
    import boto3

    known = {
        region
        for partition in ("aws", "aws-us-gov")
        for region in boto3.Session().get_available_regions("fsx", partition_name=partition)
    }
    data = regions.table()
    assert set(data["lustre"]["regions"]) | set(data["openzfs"]["regions"]) <= known
    types = {name for names in data["openzfs"]["regions"].values() for name in names}
    assert types == {"SINGLE_AZ_1", "SINGLE_AZ_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_HA_2"}


# --- offers ----------------------------------------------------------------------------------------------------------
def test_a_type_must_be_offered_in_the_zone_itself() -> None:
    offers = {"m7i.2xlarge": [ZONE], "c7i.xlarge": ["use1-az6", "use1-az5"]}
    head, compute = offerings.check(context(Account(offers=offers), environment()))
    assert (head.verdict, compute.verdict) == (Verdict.OK, Verdict.FAULT)
    assert "use1-az5, use1-az6" in compute.todo
    login = environment(cluster={"login_nodes": {"instance_type": "m7i.large"}})
    found = list(offerings.check(context(Account(offers=offers), login)))
    assert [line.subject for line in found if line.verdict is Verdict.FAULT] == [
        "m7i.large (login)",
        "c7i.xlarge (compute)",
    ]
    assert "not offered in us-east-1" in found[1].found


# --- addresses -------------------------------------------------------------------------------------------------------
SUBNET = "subnet-0123456789abcdef0"


def existing() -> Environment:
    """Ten p5.48xlarge with EFA in a network that stands."""
    network = {"vpc_id": "vpc-01234567", "vpc_cidr": "10.0.0.0/16", "private_subnet_id": SUBNET}
    return environment(
        network={"zone": ZONE, "existing": network},
        cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "max": 10}]}]},
    )


def subnet(**other: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """A subnet as EC2 describes it."""
    good = {
        "VpcId": "vpc-01234567",
        "AvailabilityZoneId": ZONE,
        "MapPublicIpOnLaunch": False,
        "AvailableIpAddressCount": 12,
    }
    return {SUBNET: {**good, **other}}


def test_a_node_with_efa_takes_one_address_and_without_it_one_a_card() -> None:
    [line] = addresses.check(context(Account(), environment(cluster={"queues": [{"name": "gpu", "compute": [GPU]}]})))
    assert line.verdict is Verdict.OK
    assert "2 compute nodes" in line.wanted
    plain = environment(cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "efa": False}]}]})
    [line] = addresses.check(context(Account(), plain))
    assert "64 compute nodes" in line.wanted


def test_a_small_network_is_too_small_here_and_for_the_rule() -> None:
    small = environment(
        network={"zone": ZONE, "cidr": "10.0.0.0/24"},
        cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "max": 110}]}]},
    )
    [line] = addresses.check(context(Account(), small))
    assert line.verdict is Verdict.FAULT
    assert ("network", "cidr") in [finding.key for finding in findings(small)]


def test_an_existing_subnet_must_have_room_for_what_is_not_there_yet() -> None:
    good = list(addresses.check(context(Account(subnets=subnet()), existing())))
    assert verdicts(iter(good)) == [Verdict.OK] * 4
    assert good[-1].wanted == "12: 10 compute nodes, 1 head node, 1 OpenZFS"
    full = Account(subnets=subnet(AvailableIpAddressCount=11))
    assert verdicts(addresses.check(context(full, existing())))[-1] is Verdict.FAULT
    full.instances = [instance("p5.48xlarge", cluster="small", SubnetId=SUBNET)]
    assert verdicts(addresses.check(context(full, existing())))[-1] is Verdict.OK


@pytest.mark.parametrize(
    ("index", "other"),
    [(0, {"VpcId": "vpc-76543210"}), (1, {"AvailabilityZoneId": "use1-az6"}), (2, {"MapPublicIpOnLaunch": True})],
)
def test_an_existing_subnet_must_be_what_the_file_says(index: int, other: dict[str, Any]) -> None:
    found = verdicts(addresses.check(context(Account(subnets=subnet(**other)), existing())))
    assert [number for number, verdict in enumerate(found) if verdict is Verdict.FAULT] == [index]


def test_a_subnet_that_is_not_there() -> None:
    [line] = addresses.check(context(Account(), existing()))
    assert (line.verdict, line.found) == (Verdict.FAULT, "no such subnet")


# --- images ----------------------------------------------------------------------------------------------------------
def image(image_id: str, **other: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """An image as EC2 describes it."""
    name = f"aws-parallelcluster-{VERSION}-ubuntu-2204-lts-hvm-x86_64-202607140930"
    return {"ImageId": image_id, "Name": name, "State": "available", "Architecture": "x86_64", **other}


def test_the_package_says_how_its_images_are_called() -> None:
    found = pcluster_subprocess.images("ubuntu2204", "x86_64")
    assert found.pattern == f"aws-parallelcluster-{found.version}-ubuntu-2204-lts-hvm-x86_64*"
    assert found.tag == "parallelcluster:version"
    assert pcluster_subprocess.images("rocky9", "arm64").private


def test_the_newest_official_image_is_found_or_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: OFFICIAL)
    old, new = image("ami-0", CreationDate="2026-01-01"), image("ami-1", CreationDate="2026-07-14")
    [line] = images.check(context(Account(images=[new, old]), environment()))
    assert line.verdict is Verdict.OK
    assert line.found.startswith("ami-1 ")
    [missed] = images.check(context(Account(), environment()))
    assert missed.verdict is Verdict.FAULT


@pytest.mark.parametrize(
    ("other", "verdict", "said"),
    [
        ({"Tags": [{"Key": "its:version", "Value": VERSION}]}, Verdict.OK, ""),
        ({"Tags": [{"Key": "its:version", "Value": "3.15.0"}]}, Verdict.FAULT, "build it again"),
        ({}, Verdict.WARNING, "make sure"),
        ({"State": "pending"}, Verdict.FAULT, "use an image"),
        ({"Architecture": "arm64"}, Verdict.FAULT, "use an image"),
        (None, Verdict.FAULT, "correct the id"),
    ],
)
def test_an_image_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any] | None, verdict: Verdict, said: str
) -> None:
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: OFFICIAL)
    own = "ami-0123456789abcdef0"
    queue = {"name": "cpu", "compute": [{"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 2}]}
    wanted = environment(cluster={"head_node": {"ami": own}, "queues": [{**queue, "ami": own}]})
    there = [] if other is None else [image(own, **other)]
    [line] = images.check(context(Account(images=there), wanted))
    assert line.verdict is verdict
    assert said in line.todo


# --- buckets ---------------------------------------------------------------------------------------------------------
def test_each_bucket_name_is_looked_at() -> None:
    wanted = environment(storage={"buckets": {"name_prefix": "acme"}})
    account = Account(
        buckets={"acme-checkpoints": "403", "acme-assets": "200", "acme-access-logs": "301"},
        stacks={"small-storage": [("AWS::S3::Bucket", "Data", "acme-data")]},
    )
    found = {line.subject: line for line in buckets.check(context(account, wanted))}
    assert {name: line.verdict for name, line in found.items()} == {
        "acme-data": Verdict.OK,
        "acme-checkpoints": Verdict.FAULT,
        "acme-assets": Verdict.WARNING,
        "acme-access-logs": Verdict.FAULT,
    }
    assert "--import-existing-resources" in found["acme-assets"].todo
    elsewhere = {
        line.subject: line for line in buckets.check(context(Account(buckets={"acme-data": "eu-west-1"}), wanted))
    }
    assert elsewhere["acme-data"].verdict is Verdict.FAULT
    assert elsewhere["acme-data"].found == "taken, by this account in eu-west-1"
    free = buckets.check(context(Account(), wanted))
    assert verdicts(free) == [Verdict.OK] * 4


def test_names_that_cloudformation_makes_up_are_not_asked_about() -> None:
    assert verdicts(buckets.check(context(Account(), environment()))) == [Verdict.NOTE]


def test_the_bucket_names_are_those_of_the_templates() -> None:
    import aws_cdk as cdk
    from aws_cdk import assertions

    from trainyard.buckets import Buckets

    stack = cdk.Stack()
    wanted = environment(storage={"buckets": {"name_prefix": "acme"}}).storage.buckets
    Buckets(stack, "Buckets", buckets=wanted, retention="keep", expiring={"data": (), "checkpoints": ()})
    found = assertions.Template.from_stack(stack).find_resources("AWS::S3::Bucket")
    names = {resource["Properties"]["BucketName"] for resource in found.values()}
    assert names == {f"acme-{part}" for part in buckets.NAMES}


# --- the shipped environments, truthfully ---------------------------------------------------------------------------
def test_of_the_shipped_environments_jakarta_wants_a_lustre_that_its_region_lacks() -> None:
    wrong = {}
    for name in ("local", "guide-2xg5", "megatron-2xp5", "jakarta-80xp5e"):
        shipped = load(environment_file(name))
        lines = regions.check(context(Account(), shipped))
        wrong[name] = [line.subject for line in lines if line.verdict is Verdict.FAULT]
    assert {name for name, lines in wrong.items() if lines} == {"jakarta-80xp5e"}
    assert len(wrong["jakarta-80xp5e"]) == 3
