"""The emulated AWS: what it answers and what it refuses."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import boto3
import pytest
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from local.emulator import launch
from trainyard import parallelcluster

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


@pytest.fixture(scope="module")
def file_system(client: Clients, subnet: str) -> Callable[..., dict[str, Any]]:
    """The request of a Lustre file system that FSx accepts, with changes to its LustreConfiguration."""
    ec2 = client("ec2")
    vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="lustre", Description="lustre", VpcId=vpc)["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "IpRanges": [{"CidrIp": "10.9.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])

    def request(capacity: int = 1200, **lustre: object) -> dict[str, Any]:
        return {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": capacity,
            "SubnetIds": [subnet],
            "SecurityGroupIds": [group],
            "FileSystemTypeVersion": "2.15",
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125, **lustre},
        }

    return request


def test_lustre_refuses_an_unknown_subnet_and_a_closed_security_group(
    client: Clients, subnet: str, file_system: Callable[..., dict[str, Any]]
) -> None:
    ec2, create = client("ec2"), client("fsx").create_file_system
    assert "subnet-0123456789abcdef0" in refused(create, **file_system() | {"SubnetIds": ["subnet-0123456789abcdef0"]})
    vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    closed = ec2.create_security_group(GroupName="closed", Description="closed", VpcId=vpc)["GroupId"]
    assert "988" in refused(create, **file_system() | {"SecurityGroupIds": [closed]})


@pytest.mark.parametrize(
    ("lustre", "said"),
    [
        # Enums and limits are those of botocore's model of FSx, not of our settings.
        ({"PerUnitStorageThroughput": 2000}, "at most 1000"),
        ({"DeploymentType": "PERSISTENT_9"}, "PERSISTENT_9"),
        ({"PerUnitStorageThroughput": 200}, "PerUnitStorageThroughput 200 is not valid for PERSISTENT_2"),
        ({"DeploymentType": "PERSISTENT_1", "MetadataConfiguration": {"Mode": "AUTOMATIC"}}, "MetadataConfiguration"),
        ({"DeploymentType": "PERSISTENT_1", "EfaEnabled": True}, "EFA"),
        ({"DeploymentType": "SCRATCH_2"}, "PerUnitStorageThroughput 125"),
        ({"capacity": 3600}, "StorageCapacity 3600"),
    ],
)
def test_deployment_types_differ(
    client: Clients, file_system: Callable[..., dict[str, Any]], lustre: dict[str, Any], said: str
) -> None:
    if lustre.get("DeploymentType") == "PERSISTENT_1":
        lustre = {"PerUnitStorageThroughput": 200, **lustre}
    if lustre.get("EfaEnabled"):
        request = file_system(**lustre)
        group = request["SecurityGroupIds"][0]
        client("ec2").authorize_security_group_ingress(
            GroupId=group, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
        )
    assert said in refused(client("fsx").create_file_system, **file_system(**lustre))


def association(bucket: str, folder: str, **more: object) -> dict[str, Any]:
    paths = {"FileSystemPath": f"/{folder}", "DataRepositoryPath": f"s3://{bucket}/{folder}/"}
    properties = {"FileSystemId": {"Ref": "System"}, **paths}
    return {"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": properties, **more}


@pytest.mark.parametrize("chained", [True, False])
def test_associations_of_one_file_system_are_created_one_after_the_other(
    client: Clients, file_system: Callable[..., dict[str, Any]], *, chained: bool
) -> None:
    """Of two at the same time one fails (hashicorp/terraform-provider-aws issue 24678), also in CloudFormation."""
    stacks, name = client("cloudformation"), f"links-{chained}".lower()
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    system = {"Type": "AWS::FSx::FileSystem", "Properties": file_system()}
    waits = {"DependsOn": ["First"]} if chained else {}
    resources = {
        "System": system,
        "First": association(name, "first"),
        "Second": association(name, "second", **waits),
    }
    stacks.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
    waiter = stacks.get_waiter("stack_create_complete")
    if chained:
        waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
        found = client("fsx").describe_data_repository_associations()["Associations"]
        assert [item["Lifecycle"] for item in found] == ["AVAILABLE", "AVAILABLE"]
    else:
        with pytest.raises(Exception, match="terminal failure"):
            waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
        events = stacks.describe_stack_events(StackName=name)["StackEvents"]
        failed = [event["ResourceStatusReason"] for event in events if event["ResourceStatus"] == "CREATE_FAILED"]
        assert any("does not have the required permissions for the S3 bucket" in reason for reason in failed)
    stacks.delete_stack(StackName=name)
    stacks.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1})


def role(client: Clients, name: str) -> str:
    """A role without permissions that the account may assume; its ARN."""
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    return str(client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"])


def credentials_of(client: Clients, role_arn: str) -> Credentials:
    keys = client("sts").assume_role(RoleArn=role_arn, RoleSessionName="test")["Credentials"]
    return Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])


def test_a_role_may_do_what_its_policies_allow_and_no_more(client: Clients, emulator: launch.Emulator) -> None:
    def allow(action: str, resource: str) -> None:
        statement = {"Effect": "Allow", "Action": action, "Resource": resource}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        client("iam").put_role_policy(RoleName="narrow", PolicyName="p", PolicyDocument=document)

    keys = credentials_of(client, role(client, "narrow"))
    session = boto3.Session(keys.access_key, keys.secret_key, keys.token, emulator.region)
    fsx = session.client("fsx", endpoint_url=emulator.endpoint)
    allow("fsx:DescribeFileSystems", "*")
    assert fsx.describe_file_systems()["FileSystems"] == []
    assert "AccessDenied" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef0")
    allow("fsx:DeleteFileSystem", "arn:aws:fsx:*:*:*/fs-0123456789abcdef0")
    assert "FileSystemNotFound" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef0")
    assert "AccessDenied" in refused(fsx.delete_file_system, FileSystemId="fs-0123456789abcdef1")


API_CAPABILITIES = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]

Answer = Callable[[Credentials | None], tuple[int, Any]]


@pytest.fixture(scope="module")
def api_outputs(client: Clients) -> dict[str, str]:
    """Outputs of a stack of the API's template, from the address that the product names."""
    stacks = client("cloudformation")
    template = parallelcluster.api_template_url(REGION)
    given = [{"ParameterKey": "EnableIamAdminAccess", "ParameterValue": "true"}]
    stacks.create_stack(StackName="pcluster-api", TemplateURL=template, Parameters=given, Capabilities=API_CAPABILITIES)
    stacks.get_waiter("stack_create_complete").wait(StackName="pcluster-api", WaiterConfig={"Delay": 1})
    [stack] = stacks.describe_stacks(StackName="pcluster-api")["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


@pytest.fixture(scope="module")
def answer(api_outputs: dict[str, str]) -> Answer:
    """The API's answer to a list of clusters that a caller signs."""
    url = f"{api_outputs['ParallelClusterApiInvokeUrl']}/v3/clusters"

    def call(keys: Credentials | None) -> tuple[int, Any]:
        request = AWSRequest("GET", url)
        if keys:
            SigV4Auth(keys, "execute-api", REGION).add_auth(request)
        found = urllib3.request("GET", url, headers=dict(request.headers.items()))
        return found.status, found.json()

    return call


def test_the_public_template_is_as_recorded_from_upstream(client: Clients, api_outputs: dict[str, str]) -> None:
    facts = parallelcluster.facts("api")
    assert sorted(api_outputs) == facts["outputs"]
    role = api_outputs["ParallelClusterApiUserRole"]
    assert fnmatch.fnmatchcase(role, f"arn:aws:iam::{ACCOUNT}:role/{parallelcluster.user_role_pattern()}")
    summary = client("cloudformation").get_template_summary(StackName="pcluster-api")["Parameters"]
    found = {item["ParameterKey"]: item.get("DefaultValue") for item in summary}
    added = {"ParallelClusterFunctionAdditionalPolicies": ""}
    assert found == {name: item["Default"] for name, item in facts["parameters"].items()} | added
    create = client("cloudformation").create_stack
    given = [{"ParameterKey": "PermissionsBoundaryPolicy", "ParameterValue": "arn:aws:iam::1:policy/path/boundary"}]
    said = refused(
        create,
        StackName="refused-boundary",
        TemplateURL=parallelcluster.api_template_url(REGION),
        Parameters=given,
        Capabilities=API_CAPABILITIES,
    )
    assert facts["parameters"]["PermissionsBoundaryPolicy"]["AllowedPattern"] in said


def test_the_parallelcluster_api_acts_with_the_role_of_its_stack(
    client: Clients, api_outputs: dict[str, str], answer: Answer
) -> None:
    ours = credentials_of(client, api_outputs["ParallelClusterApiUserRole"])
    iam = client("iam")
    [name] = [r["RoleName"] for r in iam.list_roles()["Roles"] if "ParallelClusterLambdaRole" in r["RoleName"]]
    statement = {"Effect": "Deny", "Action": "cloudformation:DescribeStacks", "Resource": "*"}
    denied = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=name, PolicyName="denied", PolicyDocument=denied)
    status, said = answer(ours)
    assert status != 200
    assert f"{name}/lambda is not authorized to perform: cloudformation:DescribeStacks" in json.dumps(said)
    iam.delete_role_policy(RoleName=name, PolicyName="denied")
    assert answer(ours)[0] == 200


def test_only_sessions_of_the_user_role_may_call_the_parallelcluster_api(
    client: Clients, emulator: launch.Emulator, api_outputs: dict[str, str], answer: Answer
) -> None:
    """The genuine API is behind the emulator's API Gateway."""
    foreign = role(client, "foreign")
    client("iam").attach_role_policy(RoleName="foreign", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    ours = credentials_of(client, api_outputs["ParallelClusterApiUserRole"])
    callers = {
        "unsigned": None,
        "root of the account": Credentials(emulator.account, "local"),
        "another role, even an administrator": credentials_of(client, foreign),
        "a forged signature": Credentials(ours.access_key, "0" * 40, ours.token),
    }
    assert {name: answer(keys)[0] for name, keys in callers.items()} == dict.fromkeys(callers, 403)
    assert answer(ours) == (200, {"clusters": []})


def test_only_its_owner_reads_the_state_of_an_emulator(emulator: launch.Emulator) -> None:
    found = [path for path in emulator.state_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {"state.json", "emulator.json", "emulator.log", "api.log"} <= {path.name for path in found}
    for path in found:
        inside = takewhile(lambda part: part != emulator.state_dir, (path, *path.parents))
        assert any(not part.stat().st_mode & 0o077 for part in inside), path
