"""The checks of regions, zones, subnets, images and bucket names."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk.assertions import Template

from ops import pcluster_subprocess
from ops.preflight.checks import addresses, buckets, database, existing, images, names, offerings, services
from ops.preflight.results import CheckResult, Verdict
from settings import Environment, environment_file, load
from settings.regions import fsx_regions
from settings.rules import findings
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import ZONE, Account, Answer, instance, lustre, openzfs, results
from trainyard.buckets import Buckets

VERSION = "3.16.1"
OFFICIAL = pcluster_subprocess.Images(
    VERSION, f"aws-parallelcluster-{VERSION}-ubuntu-2204-lts-hvm-x86_64*", "its:version"
)


# --- deployment types ------------------------------------------------------------------------------------------------
def stored(region: str, zone: str, openzfs: str = "SINGLE_AZ_HA_2", **lustre: Any) -> Environment:  # noqa: ANN401
    """One file system of each kind in a region."""
    volumes = [{"name": "home", "mount": "/home"}]
    return environment(
        region=region,
        network={"zone": zone},
        storage={
            "lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 4800, **lustre}],
            "openzfs": {"capacity_gib": 64, "throughput": 160, "deployment": openzfs, "volumes": volumes},
        },
    )


def types(wanted: Environment, *there: Answer) -> list[CheckResult]:
    """Results for Lustre and OpenZFS in an account with these file systems."""
    return results(offerings.deployment_types, Account(file_systems=list(there)), wanted)


PERSISTENT_1: dict[str, Any] = {"deployment": "PERSISTENT_1", "throughput": 200}
THERE = (lustre("fs-0", 4800, throughput=1000), openzfs("fs-1"))


@pytest.mark.parametrize(
    ("wanted", "there", "verdicts"),
    [
        (stored("us-east-2", "use2-az1", efa=True), (), "ok ok"),
        (stored("ap-southeast-3", "apse3-az1", "SINGLE_AZ_HA_1", **PERSISTENT_1), (), "ok ok"),
        (stored("us-gov-east-2", "usge2-az1", throughput=1000), THERE, "ok ok"),
        (stored("us-gov-east-2", "usge2-az1", throughput=1000, efa=True), THERE, "unknown ok"),
        (stored("us-gov-east-2", "usge2-az1"), (), "unknown unknown"),
        (stored("us-gov-east-2", "usge2-az1", **PERSISTENT_1), (), "ok unknown"),
        (stored("us-east-1", ZONE), (), "ok warning"),
    ],
    ids=[
        "Ohio has both", "Jakarta has older types", "existing file systems", "existing without EFA",
        "region is not in the table", "PERSISTENT_1 is everywhere", "not in every zone",
    ],
)  # fmt: skip
def test_deployment_types(wanted: Environment, there: tuple[Answer, ...], verdicts: str) -> None:
    assert " ".join(result.verdict for result in types(wanted, *there)) == verdicts


def test_results_name_the_source() -> None:
    lustre, openzfs = types(stored("us-gov-east-2", "usge2-az1"))
    assert "using-fsx-lustre.html" in lustre.todo
    assert "read on 2026-" in openzfs.asked
    assert "settings/data/fsx_regions.json" in openzfs.todo


def test_table_names_regions_and_types_that_exist() -> None:
    session = boto3.Session()
    known = {name for part in ("aws", "aws-us-gov") for name in session.get_available_regions("fsx", part)}
    data = fsx_regions()
    assert set(data["lustre"]["regions"]) | set(data["openzfs"]["regions"]) <= known
    types = {name for names in data["openzfs"]["regions"].values() for name in names}
    assert types == {"SINGLE_AZ_1", "SINGLE_AZ_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_HA_2"}


@pytest.mark.parametrize("name", ["local", "guide-2xg5", "megatron-2xp5", "jakarta-80xp5e"])
def test_shipped_environments_want_what_their_regions_have(name: str) -> None:
    assert {result.verdict for result in types(load(environment_file(name)))} <= {Verdict.OK, Verdict.WARNING}


# --- instance types --------------------------------------------------------------------------------------------------
def test_zone_must_offer_each_type() -> None:
    account = Account(offers={"m7i.2xlarge": [ZONE], "c7i.xlarge": ["use1-az6", "use1-az5"]})
    wanted = environment(cluster={"login_nodes": {"instance_type": "m7i.large"}})
    found = {result.subject: result for result in results(offerings.instance_types, account, wanted)}
    assert {subject: str(result.verdict) for subject, result in found.items()} == {
        "m7i.2xlarge (head)": "ok", "m7i.large (login)": "fault", "c7i.xlarge (compute)": "fault",
    }  # fmt: skip
    assert "use1-az5, use1-az6" in found["c7i.xlarge (compute)"].todo
    assert "not offered in us-east-1" in found["m7i.large (login)"].found


# --- addresses -------------------------------------------------------------------------------------------------------
SUBNET = "subnet-0123456789abcdef0"
EXISTING = environment(
    network={
        "zone": ZONE,
        "existing": {"vpc_id": "vpc-01234567", "vpc_cidr": "10.0.0.0/16", "private_subnet_id": SUBNET},
    },
    cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "max": 10}]}]},
)
"""Ten p5.48xlarge with EFA in an existing network."""


def with_subnet(**other: Any) -> Account:  # noqa: ANN401 - any field
    """An account with the subnet, as EC2 describes it."""
    good = {"VpcId": "vpc-01234567", "AvailabilityZoneId": ZONE, "MapPublicIpOnLaunch": False}
    return Account(subnets={SUBNET: {**good, "AvailableIpAddressCount": 12, **other}})


def in_existing(account: Account) -> list[str]:
    return [str(result.verdict) for result in results(addresses.check, account, EXISTING)]


def test_small_network_fails_here_and_by_the_rule() -> None:
    small = environment(
        network={"zone": ZONE, "cidr": "10.0.0.0/24"},
        cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "max": 110}]}]},
    )
    [result] = results(addresses.check, Account(), small)
    assert result.verdict is Verdict.FAULT
    assert ("network", "cidr") in [finding.key for finding in findings(small)]


def test_existing_subnet_needs_addresses_for_what_does_not_exist_yet() -> None:
    assert in_existing(with_subnet()) == ["ok"] * 4
    assert (
        results(addresses.check, with_subnet(), EXISTING)[-1].wanted == "12: 10 compute nodes, 1 head node, 1 OpenZFS"
    )
    full = with_subnet(AvailableIpAddressCount=11)
    assert in_existing(full)[-1] == "fault"
    full.instances = [instance("p5.48xlarge", cluster="small", SubnetId=SUBNET)]
    assert in_existing(full)[-1] == "ok"


@pytest.mark.parametrize(
    ("index", "other"),
    [(0, {"VpcId": "vpc-76543210"}), (1, {"AvailabilityZoneId": "use1-az6"}), (2, {"MapPublicIpOnLaunch": True})],
)
def test_existing_subnet_differs_from_the_file(index: int, other: dict[str, Any]) -> None:
    verdicts = in_existing(with_subnet(**other))
    assert [number for number, verdict in enumerate(verdicts) if verdict == "fault"] == [index]


@pytest.mark.parametrize(("assigns", "verdict"), [(True, "ok"), (False, "fault")])
def test_existing_public_subnet_of_login_nodes_assigns_addresses(assigns: bool, verdict: str) -> None:
    public = "subnet-0fedcba9876543210"
    account = with_subnet()
    account.subnets[public] = {**account.subnets[SUBNET], "MapPublicIpOnLaunch": assigns}
    network = EXISTING.network.model_dump(exclude_unset=True)
    wanted = environment(
        network={**network, "existing": {**network["existing"], "public_subnet_id": public}},
        cluster={"login_nodes": {"subnet": "public"}},
    )
    found = [item for item in results(addresses.check, account, wanted) if f"{public}: public" in item.subject]
    assert [str(item.verdict) for item in found] == [verdict]


def test_missing_subnet() -> None:
    [result] = results(addresses.check, Account(), EXISTING)
    assert (result.verdict, result.found) == (Verdict.FAULT, "no such subnet")


# --- images ----------------------------------------------------------------------------------------------------------
def image(image_id: str, **other: Any) -> Answer:  # noqa: ANN401 - any field
    """An image as EC2 describes it."""
    name = f"aws-parallelcluster-{VERSION}-ubuntu-2204-lts-hvm-x86_64-202607140930"
    return {"ImageId": image_id, "Name": name, "State": "available", "Architecture": "x86_64", **other}


def test_names_of_the_packages_official_images() -> None:
    found = pcluster_subprocess.images("ubuntu2204", "x86_64")
    assert found.pattern == f"aws-parallelcluster-{found.version}-ubuntu-2204-lts-hvm-x86_64*"
    assert found.tag == "parallelcluster:version"


def test_newest_official_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: OFFICIAL)
    there = [image("ami-1", CreationDate="2026-07-14"), image("ami-0", CreationDate="2026-01-01")]
    [found] = results(images.check, Account(images=there), environment())
    assert found.verdict is Verdict.OK and found.found.startswith("ami-1 ")
    [missing] = results(images.check, Account(), environment())
    assert missing.verdict is Verdict.FAULT


@pytest.mark.parametrize(
    ("other", "verdict", "advice"),
    [
        ({"Tags": [{"Key": "its:version", "Value": VERSION}]}, Verdict.OK, ""),
        ({"Tags": [{"Key": "its:version", "Value": "3.15.0"}]}, Verdict.FAULT, "build it again"),
        ({}, Verdict.WARNING, "make sure"),
        ({"State": "pending"}, Verdict.FAULT, "use an available image"),
        ({"Architecture": "arm64"}, Verdict.FAULT, "use an available image"),
        (None, Verdict.FAULT, "correct the id"),
    ],
)
def test_custom_image(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any] | None, verdict: Verdict, advice: str
) -> None:
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: OFFICIAL)
    own = "ami-0123456789abcdef0"
    queue = {"name": "gpu", "compute": [GPU], "ami": own}
    wanted = environment(cluster={"head_node": {"ami": own}, "queues": [queue]})
    [result] = results(images.check, Account(images=[] if other is None else [image(own, **other)]), wanted)
    assert result.verdict is verdict and advice in result.todo


# --- buckets ---------------------------------------------------------------------------------------------------------
PREFIXED = environment(storage={"buckets": {"name_prefix": "acme"}})


@pytest.mark.parametrize(
    ("status", "verdict", "text"),
    [
        ("404", Verdict.OK, "free"),
        ("403", Verdict.FAULT, "another account"),
        ("301", Verdict.FAULT, "another region"),
        ("eu-west-1", Verdict.FAULT, "taken, by this account in eu-west-1"),
        ("200", Verdict.WARNING, "--import-existing-resources"),
    ],
)
def test_bucket_names(status: str, verdict: Verdict, text: str) -> None:
    found = results(buckets.check, Account(buckets={"acme-data": status}), PREFIXED)
    assert [result.verdict for result in found] == [verdict] + [Verdict.OK] * 3
    assert text in found[0].found + found[0].todo


def test_own_bucket_and_generated_names() -> None:
    account = Account(
        buckets={"acme-data": "200"}, stacks={"small-storage": [("AWS::S3::Bucket", "Data", "acme-data")]}
    )
    assert {result.verdict for result in results(buckets.check, account, PREFIXED)} == {Verdict.OK}
    assert [result.verdict for result in results(buckets.check, Account(), environment())] == [Verdict.NOTE]


def test_bucket_names_are_those_of_the_templates() -> None:
    stack = cdk.Stack()
    wanted = PREFIXED.storage.buckets
    Buckets(stack, "Buckets", buckets=wanted, retention="keep", expiring=())
    found = Template.from_stack(stack).find_resources("AWS::S3::Bucket")
    made = {resource["Properties"]["BucketName"] for resource in found.values()}
    assert made == {f"acme-{part}" for part in buckets.NAMES}


# --- what exists outside of the environment ---------------------------------------------------------------------------
VPC, FS, VOLUME = "vpc-0123456789abcdef0", "fs-0123456789abcdef0", "fsvol-0123456789abcdef0"
NETWORK = {"vpc_id": VPC, "vpc_cidr": "10.0.0.0/16", "private_subnet_id": "subnet-0123456789abcdef0"}
LINK = {"path": "/in", "bucket": "s3://team-data"}
USING = environment(
    network={"zone": ZONE, "existing": NETWORK},
    storage={
        "lustre": [{"name": "own", "mount": "/own", "capacity_gib": 1200, "associations": [LINK]}],
        "existing": [{"name": "fsx", "mount": "/fsx", "id": FS}, {"name": "home", "mount": "/home", "id": VOLUME}],
    },
)
THERE_IS: dict[str, Any] = {
    "file_systems": [
        {"FileSystemId": FS, "VpcId": VPC, "Lifecycle": "AVAILABLE"},
        {"FileSystemId": "fs-1", "VpcId": VPC, "Lifecycle": "UPDATING"},
    ],
    "volumes": [{"VolumeId": VOLUME, "FileSystemId": "fs-1", "Lifecycle": "CREATED"}],
    "buckets": {"team-data": "us-east-1"},
}


@pytest.mark.parametrize(
    ("other", "verdicts", "text"),
    [
        ({}, "ok ok ok", "AVAILABLE in"),
        ({"file_systems": []}, "fault fault ok", "no such file system"),
        ({"volumes": []}, "ok fault ok", "no such file system"),
        ({"file_systems": [{**THERE_IS["file_systems"][0], "VpcId": "vpc-1"}]}, "fault fault ok", "in vpc-1"),
        ({"volumes": [{**THERE_IS["volumes"][0], "Lifecycle": "FAILED"}]}, "ok fault ok", "FAILED"),
        ({"buckets": {}}, "ok ok fault", "no such bucket"),
        ({"buckets": {"team-data": "403"}}, "ok ok fault", "no access"),
        ({"buckets": {"team-data": "eu-west-1"}}, "ok ok fault", "eu-west-1"),
    ],
)
def test_what_exists_outside_of_the_environment(other: dict[str, Any], verdicts: str, text: str) -> None:
    found = results(existing.check, Account(**{**THERE_IS, **other}), USING)
    assert " ".join(result.verdict.value for result in found) == verdicts
    assert any(text in result.found for result in found)
    assert results(existing.check, Account(), environment()) == []


# --- repositories and log groups -------------------------------------------------------------------------------------
REPOSITORY, LOG_GROUP = "small/pytorch-training-custom", "/aws/fsx/small-storage"


@pytest.mark.parametrize(
    ("there", "verdicts", "text"),
    [
        ({"log_groups": [f"{LOG_GROUP}-of-another"]}, "ok ok", "free"),
        ({"repositories": {REPOSITORY: "small"}}, "warning ok", "--import-existing-resources"),
        ({"repositories": {REPOSITORY: "other"}}, "fault ok", "of the environment other"),
        ({"repositories": {REPOSITORY: ""}}, "fault ok", "images.prefix"),
        ({"log_groups": [LOG_GROUP]}, "ok warning", "--import-existing-resources"),
        (
            {
                "repositories": {REPOSITORY: "small"},
                "log_groups": [LOG_GROUP],
                "stacks": {
                    "small-images": [("AWS::ECR::Repository", "Images", REPOSITORY)],
                    "small-storage": [("AWS::Logs::LogGroup", "Logs", LOG_GROUP)],
                },
            },
            "ok",
            "of this environment's stacks",
        ),
    ],
)
def test_fixed_names(there: dict[str, Any], verdicts: str, text: str) -> None:
    wanted = environment(storage={"lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 1200}]})
    found = results(names.check, Account(**there), wanted)
    assert " ".join(result.verdict for result in found) == verdicts
    assert text in " ".join(result.found + result.todo for result in found)


def test_fixed_names_without_lustre_and_with_another_prefix() -> None:
    wanted = environment(images={"prefix": "", "repositories": [{"name": "ab"}, {"name": "cd/e"}]})
    assert [result.subject for result in results(names.check, Account(), wanted)] == [
        "repository ab",
        "repository cd/e",
    ]


# --- chat and sign-in ------------------------------------------------------------------------------------------------
TEAM = "01234567-89ab-cdef-0123-456789abcdef"
NOTIFY = {
    "slack": {"workspace": "T01ABCDEFGH", "channel": "C01ABCDEFGH"},
    "teams": {"tenant": TEAM, "team": TEAM, "channel": "19%3aabc%40thread.tacv2"},
}


@pytest.mark.parametrize(
    ("there", "verdicts"),
    [
        (
            {"workspaces": ["T01ABCDEFGH"], "teams": [TEAM], "identity_centers": ["arn:aws:sso:::instance/1"]},
            "ok ok ok",
        ),
        ({"workspaces": ["T0OTHER"], "teams": [TEAM]}, "fault ok warning"),
        ({"workspaces": ["T01ABCDEFGH"]}, "ok fault warning"),
    ],
)
def test_chat_and_sign_in(there: dict[str, Any], verdicts: str) -> None:
    wanted = environment(observability={"mode": "managed", "notify": NOTIFY})
    found = results(services.check, Account(**there), wanted)
    assert " ".join(result.verdict for result in found) == verdicts
    assert all(result.todo for result in found if result.verdict is not Verdict.OK)


# --- accounting database ---------------------------------------------------------------------------------------------
ENGINE = {"aurora-mysql 8.0.mysql_aurora.3.10.4": "aurora-mysql8.0"}
PRIVATE, OTHER = "subnet-0123456789abcdef0", "subnet-0aaaaaaaaaaaaaaaa"


@pytest.mark.parametrize(
    ("there", "verdicts"),
    [
        ({"engines": ENGINE, "zones": {"use1-az1": "available"}}, "ok ok"),
        ({"engines": ENGINE, "zones": {"use1-az1": "impaired"}}, "ok fault"),
        ({"engines": ENGINE}, "ok fault"),
        ({"engines": dict.fromkeys(ENGINE, "aurora-mysql8.4"), "zones": {"use1-az1": "available"}}, "fault ok"),
        ({"zones": {"use1-az1": "available"}}, "fault ok"),
    ],
)
def test_version_and_zone_of_the_database(there: dict[str, Any], verdicts: str) -> None:
    found = results(database.check, Account(**there), environment(cluster={"slurm": {"accounting": True}}))
    assert " ".join(result.verdict for result in found) == verdicts
    assert all(result.todo for result in found if result.verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("subnets", "verdict"),
    [
        ({OTHER: {"VpcId": NETWORK["vpc_id"], "AvailabilityZoneId": "use1-az2"}}, "ok"),
        ({OTHER: {"VpcId": NETWORK["vpc_id"], "AvailabilityZoneId": ZONE}}, "fault"),
        ({OTHER: {"VpcId": "vpc-1", "AvailabilityZoneId": "use1-az2"}}, "fault"),
        ({}, "fault"),
    ],
)
def test_second_subnet_of_the_database_in_an_existing_network(subnets: dict[str, Any], verdict: str) -> None:
    accounting = {"slurm": {"accounting": {"subnet_id": OTHER}}}
    wanted = environment(network={"zone": ZONE, "existing": NETWORK}, cluster=accounting)
    [_, found] = results(database.check, Account(engines=ENGINE, subnets=subnets), wanted)
    assert found.verdict == verdict


@pytest.mark.parametrize("accounting", [None, False, {"uri": "db"}])
def test_nothing_is_asked_about_other_databases(accounting: object) -> None:
    account = Account()
    assert results(database.check, account, environment(cluster={"slurm": {"accounting": accounting}})) == []
    assert "rds:DescribeDBEngineVersions" not in account.asked


def test_nothing_to_sign_in_to() -> None:
    assert results(services.check, Account(), environment(observability="self-hosted")) == []
