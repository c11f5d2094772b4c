"""The emulated AWS: what it answers and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.emulator import launch

ACCOUNT, REGION, RESERVATION = "111122223333", "us-west-2", "cr-0123456789abcdef0"

Clients = Callable[[str], Any]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def client(aws: boto3.Session, emulator: launch.Emulator) -> Clients:
    """Clients of the emulator's services, by name."""
    untyped: Any = aws
    return lambda service: untyped.client(service, endpoint_url=emulator.endpoint)


@pytest.fixture(scope="module")
def subnet(client: Clients) -> str:
    """A subnet of a VPC of its own."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24", AvailabilityZoneId="usw2-az1")
    return str(made["Subnet"]["SubnetId"])


def refused(call: Callable[..., Any], **arguments: object) -> str:
    """The error that a call is answered with."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return f"{caught.value.response['Error']['Code']}: {caught.value.response['Error']['Message']}"


def test_the_emulator_is_of_its_account_and_region(client: Clients) -> None:
    assert client("sts").get_caller_identity()["Account"] == ACCOUNT
    zones = client("ec2").describe_availability_zones()["AvailabilityZones"]
    assert {zone["ZoneId"] for zone in zones} == {"usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"}
    assert all(zone["ZoneName"].startswith(REGION) for zone in zones)


def test_instance_types_are_those_of_the_region(client: Clients) -> None:
    ec2 = client("ec2")
    found = ec2.describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"][0]
    assert found["NetworkInfo"]["MaximumNetworkCards"] == 32
    assert found["GpuInfo"]["Gpus"][0]["Count"] == 8
    assert "InvalidInstanceType" in refused(ec2.describe_instance_types, InstanceTypes=["p9.48xlarge"])


def test_seeds_exist_from_the_start(client: Clients) -> None:
    found = client("ec2").describe_capacity_reservations(CapacityReservationIds=[RESERVATION])["CapacityReservations"][
        0
    ]
    assert (found["InstanceType"], found["TotalInstanceCount"]) == ("p5.48xlarge", 2)
    assert (found["AvailabilityZoneId"], found["ReservationType"]) == ("usw2-az1", "capacity-block")
    assert client("ssm").get_parameter(Name="/given/before")["Parameter"]["Value"] == "yes"


def test_dry_runs_are_judged(client: Clients, subnet: str) -> None:
    ec2 = client("ec2")
    images = ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "name", "Values": ["aws-parallelcluster-*"]}])
    image = images["Images"][0]["ImageId"]
    right: dict[str, Any] = {
        "DryRun": True,
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": subnet,
        "ImageId": image,
        "InstanceType": "p5.48xlarge",
    }
    assert "DryRunOperation" in refused(ec2.run_instances, **right)
    assert "InvalidAMIID.NotFound" in refused(ec2.run_instances, **right | {"ImageId": "ami-00000000000000000"})
    assert "InvalidSubnetID.NotFound" in refused(ec2.run_instances, **right | {"SubnetId": "subnet-0"})
    target = {"CapacityReservationTarget": {"CapacityReservationId": RESERVATION}}
    wrong_type = right | {"InstanceType": "p4d.24xlarge", "CapacityReservationSpecification": target}
    assert "p5.48xlarge" in refused(ec2.run_instances, **wrong_type)
    cards = [{"DeviceIndex": 0 if n == 0 else 1, "NetworkCardIndex": n, "SubnetId": subnet} for n in range(33)]
    del right["SubnetId"]
    assert "32 network cards" in refused(ec2.run_instances, **right | {"NetworkInterfaces": cards})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # Enums and limits are those of botocore's model of FSx, not of our settings.
        ({"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 2000}}, "at most 1000"),
        ({"LustreConfiguration": {"DeploymentType": "PERSISTENT_9"}}, "PERSISTENT_9"),
        ({"SubnetIds": ["subnet-0123456789abcdef0"]}, "subnet-0123456789abcdef0"),
        ({}, "988"),
    ],
)
def test_lustre_refuses_what_fsx_refuses(client: Clients, subnet: str, change: dict[str, Any], said: str) -> None:
    request = {
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 4800,
        "SubnetIds": [subnet],
        "FileSystemTypeVersion": "2.15",
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    }
    vpc = client("ec2").describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    closed = client("ec2").create_security_group(GroupName=f"closed-{said}", Description="closed", VpcId=vpc)["GroupId"]
    assert said in refused(client("fsx").create_file_system, **request | {"SecurityGroupIds": [closed]} | change)


def test_cloudformation_judges_types_by_the_registry(client: Clients) -> None:
    stacks = client("cloudformation")
    resource = {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster", "NoSuchProperty": 1}}
    stacks.create_stack(StackName="refused", TemplateBody=json.dumps({"Resources": {"Group": resource}}))
    with pytest.raises(Exception, match="terminal failure"):
        stacks.get_waiter("stack_create_complete").wait(
            StackName="refused", WaiterConfig={"Delay": 1, "MaxAttempts": 20}
        )
    events = stacks.describe_stack_events(StackName="refused")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events if event["ResourceStatus"] == "CREATE_FAILED"]
    assert any("NoSuchProperty" in reason for reason in reasons)


def test_a_role_may_do_what_its_policies_allow_and_no_more(client: Clients, emulator: launch.Emulator) -> None:
    iam, sts = client("iam"), client("sts")
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
        ],
    }
    allowed: dict[str, Any] = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "fsx:DescribeFileSystems", "Resource": "*"}],
    }
    role = iam.create_role(RoleName="narrow", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    iam.put_role_policy(RoleName="narrow", PolicyName="p", PolicyDocument=json.dumps(allowed))
    keys = sts.assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], emulator.region)
    fsx = session.client("fsx", endpoint_url=emulator.endpoint)
    assert fsx.describe_file_systems()["FileSystems"] == []
    assert "AccessDenied" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef0")
    one = "arn:aws:fsx:*:*:*/fs-0123456789abcdef0"
    allowed["Statement"] = [{"Effect": "Allow", "Action": "fsx:DeleteFileSystem", "Resource": one}]
    iam.put_role_policy(RoleName="narrow", PolicyName="p", PolicyDocument=json.dumps(allowed))
    assert "FileSystemNotFound" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef0")
    assert "AccessDenied" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef1")
