"""The genuine ParallelCluster API behind the emulator's API Gateway: who may call, and a cluster's whole life."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.emulator import launch
from trainyard import parallelcluster

pytestmark = pytest.mark.e2e

WAIT_SECONDS = 90
NETWORK: dict[str, Any] = {
    "Vpc": {
        "Type": "AWS::EC2::VPC",
        "Properties": {"CidrBlock": "10.8.0.0/16", "EnableDnsSupport": True, "EnableDnsHostnames": True},
    },
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.8.1.0/24", "AvailabilityZoneId": "usw2-az2"},
    },
    "Gateway": {"Type": "AWS::EC2::InternetGateway"},
    "Attachment": {
        "Type": "AWS::EC2::VPCGatewayAttachment",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "InternetGatewayId": {"Ref": "Gateway"}},
    },
    "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
    "Nat": {
        "Type": "AWS::EC2::NatGateway",
        "Properties": {"SubnetId": {"Ref": "Subnet"}, "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}},
    },
    "Table": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "Vpc"}}},
    "Route": {
        "Type": "AWS::EC2::Route",
        "Properties": {
            "RouteTableId": {"Ref": "Table"},
            "DestinationCidrBlock": "0.0.0.0/0",
            "NatGatewayId": {"Ref": "Nat"},
        },
    },
    "Association": {
        "Type": "AWS::EC2::SubnetRouteTableAssociation",
        "Properties": {"SubnetId": {"Ref": "Subnet"}, "RouteTableId": {"Ref": "Table"}},
    },
}


@dataclass(frozen=True)
class Api:
    """The API at its address, called with given credentials."""

    url: str
    region: str
    credentials: Credentials | None

    def __call__(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        data = json.dumps(body).encode() if body is not None else None
        request = AWSRequest(method, self.url + path, data=data, headers={"Content-Type": "application/json"})
        if self.credentials:
            SigV4Auth(self.credentials, "execute-api", self.region).add_auth(request)
        sent = urllib.request.Request(self.url + path, data=data, method=method, headers=dict(request.headers))  # noqa: S310
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310 - the emulator's address
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


def stack(session: boto3.Session, emulator: launch.Emulator, name: str, **template: str) -> dict[str, str]:
    """Create a stack; its outputs."""
    client: Any = session.client("cloudformation", endpoint_url=emulator.endpoint)
    client.create_stack(StackName=name, Capabilities=["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"], **template)
    client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    found = client.describe_stacks(StackName=name)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


@pytest.fixture(scope="module")
def outputs(aws: boto3.Session, emulator: launch.Emulator) -> dict[str, str]:
    """The outputs of the public template, from the address that the product names."""
    bucket, version = f"{emulator.region}-aws-parallelcluster", parallelcluster.version()
    url = f"https://{bucket}.s3.{emulator.region}.amazonaws.com/parallelcluster/{version}/api/parallelcluster-api.yaml"
    return stack(aws, emulator, "pcluster-api", TemplateURL=url)


def session_of(aws: boto3.Session, emulator: launch.Emulator, role: str) -> Credentials:
    keys = aws.client("sts", endpoint_url=emulator.endpoint).assume_role(RoleArn=role, RoleSessionName="test")[
        "Credentials"
    ]
    return Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])


def test_only_sessions_of_the_user_role_may_call(
    aws: boto3.Session, emulator: launch.Emulator, outputs: dict[str, str]
) -> None:
    url = outputs["ParallelClusterApiInvokeUrl"]
    assert url.endswith("/prod")
    iam = aws.client("iam", endpoint_url=emulator.endpoint)
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"AWS": f"arn:aws:iam::{emulator.account}:root"},
            }
        ],
    }
    foreign = iam.create_role(RoleName="foreign", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    iam.attach_role_policy(RoleName="foreign", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    ours = session_of(aws, emulator, outputs["ParallelClusterApiUserRole"])
    callers = {
        "unsigned": None,
        "root of the account": Credentials(emulator.account, "local"),
        "another role, even an administrator": session_of(aws, emulator, foreign),
        "a forged signature": Credentials(ours.access_key, "0" * 40, ours.token),
    }
    answers = {name: Api(url, emulator.region, keys)("GET", "/v3/clusters")[0] for name, keys in callers.items()}
    assert answers == dict.fromkeys(callers, 403)
    assert Api(url, emulator.region, ours)("GET", "/v3/clusters") == (200, {"clusters": []})


def test_a_cluster_lives_and_goes(aws: boto3.Session, emulator: launch.Emulator, outputs: dict[str, str]) -> None:
    network = {"Resources": NETWORK, "Outputs": {"Subnet": {"Value": {"Ref": "Subnet"}}}}
    subnet = stack(aws, emulator, "network", TemplateBody=json.dumps(network))["Subnet"]
    api = Api(
        outputs["ParallelClusterApiInvokeUrl"],
        emulator.region,
        session_of(aws, emulator, outputs["ParallelClusterApiUserRole"]),
    )
    compute = {"Name": "cpu", "InstanceType": "c7i.large", "MinCount": 0, "MaxCount": 2}
    configuration = {
        "Image": {"Os": "ubuntu2204"},
        "HeadNode": {"InstanceType": "m7i.large", "Networking": {"SubnetId": subnet}},
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmQueues": [{"Name": "cpu", "ComputeResources": [compute], "Networking": {"SubnetIds": [subnet]}}],
        },
    }
    wrong = configuration | {"HeadNode": {"InstanceType": "m7i.nonsense", "Networking": {"SubnetId": subnet}}}
    status, answer = api("POST", "/v3/clusters", {"clusterName": "test", "clusterConfiguration": json.dumps(wrong)})
    assert status == 400
    assert "m7i.nonsense" in json.dumps(answer)

    status, answer = api(
        "POST", "/v3/clusters", {"clusterName": "test", "clusterConfiguration": json.dumps(configuration)}
    )
    assert (status, answer.get("message")) == (202, None)
    found = until(api, "CREATE_COMPLETE")
    assert found["headNode"]["state"] == "running"
    assert found["computeFleetStatus"] == "RUNNING"
    # And not the nested stack of its queues.
    assert [item["clusterName"] for item in api("GET", "/v3/clusters")[1]["clusters"]] == ["test"]

    assert api("DELETE", "/v3/clusters/test")[0] == 202
    until(api, None)


def until(api: Api, wanted: str | None) -> dict[str, Any]:
    """Poll the cluster until it has a status, or (None) until it is gone."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        status, answer = api("GET", "/v3/clusters/test")
        if status == 404 and wanted is None:
            return {}
        if answer.get("clusterStatus") == wanted:
            return answer
        if "FAILED" in str(answer.get("clusterStatus")):
            break
        time.sleep(1)
    raise AssertionError(f"wanted {wanted}, last answer: {status} {answer}")
