"""Answers the AWS calls of ParallelCluster's validators and template builder, in process, from an `Account`.

About resources that do not exist the answer is AWS's error, so every validator runs and can fail. Instance types, their
zones and AWS's managed policies come from the data files of moto, which records them from AWS; none of its code runs.
The calls are those of ParallelCluster 3.16 (pcluster/aws/*.py); any other is refused.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
from botocore import xform_name
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from pcluster.aws.aws_api import AWSApi
from pcluster.aws.common import Cache
from pcluster.constants import (
    FSX_PORTS,
    OS_TO_IMAGE_NAME_PART_MAP,
    PCLUSTER_IMAGE_BUILD_STATUS_TAG,
    PCLUSTER_IMAGE_OS_TAG,
    PCLUSTER_VERSION_TAG,
)
from pcluster.utils import get_installed_version

from parallelcluster.account import Account, AccountError

Json = dict[str, Any]
ACCOUNT_ID, VPC_ID = "123456789012", "vpc-0123456789abcdef0"
_OPENZFS_ID = "fs-0123456789abcde2f"
_MOTO = Path(importlib.util.find_spec("moto").origin).parent  # type: ignore[union-attr,arg-type]  # is installed


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.error = {"Code": code, "Message": message}


@contextmanager
def answered(account: Account) -> Iterator[None]:
    """Answer every boto3 call from `account`; raises AccountError where the region has no such zone."""
    answers = _Answers(account)

    def call(_client: BaseClient, operation: str, request: Json) -> Json:
        answer: Callable[[Json], Json] | None = getattr(answers, xform_name(operation), None)
        try:
            if answer is None:
                raise _Refused("NotImplemented", f"{operation} is not emulated (parallelcluster/aws.py)")
            return answer(request)
        except _Refused as refused:
            raise ClientError({"Error": refused.error}, operation) from None  # type: ignore[typeddict-item]

    variables = {"AWS_DEFAULT_REGION": account.region, "AWS_REGION": account.region}
    with mock.patch.dict(os.environ, variables), mock.patch.object(BaseClient, "_make_api_call", call):
        AWSApi.reset()
        Cache.clear_all()
        try:
            yield
        finally:
            AWSApi.reset()
            Cache.clear_all()


@functools.cache
def _recorded(name: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(gzip.decompress((_MOTO / "ec2" / "resources" / f"{name}.json.gz").read_bytes()))


@functools.cache
def _aws_policies() -> str:
    return (_MOTO / "iam" / "aws_managed_policies.py").read_text("utf-8")


class _Answers:
    """A method for each operation of AWS, named as in boto3: from its request to its answer."""

    def __init__(self, account: Account) -> None:
        self._account = account
        offerings = _recorded(f"instance_type_offerings/availability-zone-id/{account.region}")
        zone_ids = sorted({offering["Location"] for offering in offerings})
        self._zone_id = account.zone_id or zone_ids[0]
        if self._zone_id not in zone_ids:
            raise AccountError(f"{account.region} has no zone {self._zone_id}; it has {', '.join(zone_ids)}.")
        self._zone = self._name(self._zone_id)
        self._offered = [(offering["InstanceType"], self._name(offering["Location"])) for offering in offerings]
        self._images = {image["ImageId"]: image for image in self._all_images()}

    def _name(self, zone_id: str) -> str:
        # AWS gives the letters by account; here az1 is a.
        return f"{self._account.region}{chr(ord('a') - 1 + int(zone_id[-1]))}"

    def _arn(self, service: str, resource: str) -> str:
        partition = boto3.session.Session().get_partition_for_region(self._account.region)
        return f"arn:{partition}:{service}:{self._account.region}:{ACCOUNT_ID}:{resource}"

    def describe_instance_types(self, request: Json) -> Json:
        types = _recorded("instance_types")
        names = _known(request["InstanceTypes"], types, "InvalidInstanceType", "The instance type '{}' does not exist")
        return {"InstanceTypes": [types[name] for name in names]}

    def describe_instance_type_offerings(self, request: Json) -> Json:
        wanted = [value for item in request.get("Filters", []) for value in item["Values"]]
        zonal = request.get("LocationType") == "availability-zone"
        found = sorted({(name, zone if zonal else self._account.region) for name, zone in self._offered})
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": name, "Location": place} for name, place in found if not wanted or name in wanted
            ]
        }

    def _all_images(self) -> Iterator[Json]:
        version = get_installed_version()
        number = 0
        for part in OS_TO_IMAGE_NAME_PART_MAP.values():
            for architecture in ("x86_64", "arm64"):
                name = f"aws-parallelcluster-{version}-{part}-{architecture}-202601010000"
                yield _image(f"ami-{number:017x}", name, architecture, {})
                number += 1
        tags = {
            PCLUSTER_VERSION_TAG: version,
            PCLUSTER_IMAGE_OS_TAG: self._account.image_os,
            PCLUSTER_IMAGE_BUILD_STATUS_TAG: "available",
        }
        for image_id in self._account.image_ids:
            yield _image(image_id, f"own-{image_id}", "x86_64", tags)

    def describe_images(self, request: Json) -> Json:
        if ids := request.get("ImageIds"):
            _known(ids, self._images, "InvalidAMIID.NotFound", "The image id '[{}]' does not exist")
            return {"Images": [self._images[image_id] for image_id in ids]}
        patterns = [value for item in request["Filters"] if item["Name"] == "name" for value in item["Values"]]
        found = self._images.values()
        return {"Images": [i for i in found if any(fnmatchcase(i["Name"], pattern) for pattern in patterns)]}

    def describe_subnets(self, request: Json) -> Json:
        ids = request["SubnetIds"]
        _known(ids, self._account.subnet_ids, "InvalidSubnetID.NotFound", "The subnet ID '{}' does not exist")
        return {
            "Subnets": [
                {
                    "SubnetId": subnet_id,
                    "VpcId": VPC_ID,
                    "CidrBlock": f"10.0.{16 * sorted(self._account.subnet_ids).index(subnet_id)}.0/20",
                    "AvailabilityZone": self._zone,
                    "AvailabilityZoneId": self._zone_id,
                    "MapPublicIpOnLaunch": subnet_id in self._account.public_subnet_ids,
                }
                for subnet_id in ids
            ]
        }

    def describe_route_tables(self, request: Json) -> Json:
        public = set(request["Filters"][0]["Values"]) & self._account.public_subnet_ids
        routes = [{"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-0123456789abcdef0"}] if public else []
        return {"RouteTables": [{"Routes": routes}]}

    def describe_vpc_attribute(self, request: Json) -> Json:
        return {request["Attribute"][0].upper() + request["Attribute"][1:]: {"Value": True}}

    def describe_security_groups(self, request: Json) -> Json:
        nodes = self._account.node_security_group_ids
        groups: Json = {group: ([], [_ANYWHERE]) for group in nodes | self._account.other_security_group_ids}
        for kind, ports in FSX_PORTS.items():
            rules = [
                {
                    "IpProtocol": protocol,
                    "FromPort": port,
                    "ToPort": port,
                    "UserIdGroupPairs": [{"GroupId": group} for group in sorted(nodes)],
                }
                for protocol, numbers in ports.items()
                for port in numbers
            ]
            groups[f"sg-{kind}"] = (rules, rules)
        ids = request["GroupIds"]
        _known(ids, groups, "InvalidGroup.NotFound", "The security group '{}' does not exist")
        return {
            "SecurityGroups": [
                {
                    "GroupId": group,
                    "VpcId": VPC_ID,
                    "IpPermissions": groups[group][0],
                    "IpPermissionsEgress": groups[group][1],
                }
                for group in ids
            ]
        }

    def describe_network_interfaces(self, request: Json) -> Json:
        # _file_system names them: eni-<type>-<file system>.
        return {
            "NetworkInterfaces": [
                {"NetworkInterfaceId": one, "VpcId": VPC_ID, "Groups": [{"GroupId": f"sg-{one.split('-')[1]}"}]}
                for one in request["NetworkInterfaceIds"]
            ]
        }

    def describe_file_systems(self, request: Json) -> Json:
        existing = self._account.lustre_ids | ({_OPENZFS_ID} if self._account.openzfs_volume_ids else set())
        ids = _known(request["FileSystemIds"], existing, "FileSystemNotFound", "File system '{}' does not exist.")
        return {"FileSystems": [self._file_system(one) for one in ids]}

    def _file_system(self, identifier: str) -> Json:
        kind = "LUSTRE" if identifier in self._account.lustre_ids else "OPENZFS"
        return {
            "FileSystemId": identifier,
            "FileSystemType": kind,
            "VpcId": VPC_ID,
            "SubnetIds": [min(self._account.subnet_ids)],
            "NetworkInterfaceIds": [f"eni-{kind}-{identifier}"],
            "DNSName": f"{identifier}.fsx.{self._account.region}.amazonaws.com",
            "LustreConfiguration": {"MountName": "abcdefgh"},
        }

    def describe_volumes(self, request: Json) -> Json:
        existing = self._account.openzfs_volume_ids
        ids = _known(request["VolumeIds"], existing, "VolumeNotFound", "Volume '{}' does not exist.")
        return {
            "Volumes": [
                {
                    "VolumeId": one,
                    "VolumeType": "OPENZFS",
                    "FileSystemId": _OPENZFS_ID,
                    "OpenZFSConfiguration": {"VolumePath": f"/fsx/{one}"},
                }
                for one in ids
            ]
        }

    def describe_capacity_reservations(self, request: Json) -> Json:
        existing = self._account.reservations
        code, message = "InvalidCapacityReservationId.NotFound", "The capacity reservation ID '{}' does not exist"
        ids = _known(request["CapacityReservationIds"], existing, code, message)
        return {
            "CapacityReservations": [
                {
                    "CapacityReservationId": one,
                    "CapacityReservationArn": self._arn("ec2", f"capacity-reservation/{one}"),
                    "InstanceType": existing[one]["instance_type"],
                    "InstancePlatform": "Linux/UNIX",
                    "AvailabilityZone": self._zone,
                    "TotalInstanceCount": existing[one]["count"],
                    "AvailableInstanceCount": existing[one]["count"],
                    "State": "active",
                    "ReservationType": existing[one].get("kind", "default"),
                    "InstanceMatchCriteria": "targeted",
                    "Tags": [],
                }
                for one in ids
            ]
        }

    def get_group_configuration(self, request: Json) -> Json:
        _known([request["Group"]], self._account.reservation_groups, "NotFoundException", "Cannot find group: {}")
        return {"GroupConfiguration": {"Configuration": [{"Type": "AWS::EC2::CapacityReservationPool"}]}}

    def list_group_resources(self, request: Json) -> Json:
        groups = self._account.reservation_groups
        [group] = _known([request["Group"]], groups, "NotFoundException", "Cannot find group: {}")
        arns = [self._arn("ec2", f"capacity-reservation/{one}") for one in groups[group]]
        kind = "AWS::EC2::CapacityReservation"
        return {"Resources": [{"Identifier": {"ResourceArn": arn, "ResourceType": kind}} for arn in arns]}

    def describe_key_pairs(self, request: Json) -> Json:
        types = self._account.key_types
        names = _known(request["KeyNames"], types, "InvalidKeyPair.NotFound", "The key pair '{}' does not exist")
        return {"KeyPairs": [{"KeyName": name, "KeyType": types[name]} for name in names]}

    def run_instances(self, request: Json) -> Json:
        """A dry run: ParallelCluster launches nothing while it validates."""
        self.describe_images({"ImageIds": [request["ImageId"]]})
        for interface in request.get("NetworkInterfaces", []):
            self.describe_subnets({"SubnetIds": [interface["SubnetId"]]})
            self.describe_security_groups({"GroupIds": interface.get("Groups", [])})
        if (request["InstanceType"], self._zone) not in self._offered:
            raise _Refused(
                "Unsupported",
                f"Your requested instance type ({request['InstanceType']}) is not supported in your requested "
                f"Availability Zone ({self._zone}).",
            )
        raise _Refused("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")

    def get_policy(self, request: Json) -> Json:
        arn = request["PolicyArn"]
        name = arn.rpartition("/")[2]
        known = f'"{name}":' in _aws_policies() if ":iam::aws:policy/" in arn else arn in self._account.policy_arns
        if not known:
            raise _Refused("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.")
        return {"Policy": {"Arn": arn, "PolicyName": name, "IsAttachable": True}}

    def describe_secret(self, request: Json) -> Json:
        message = "Secrets Manager can't find the specified secret {}."
        [arn] = _known([request["SecretId"]], self._account.secret_arns, "ResourceNotFoundException", message)
        return {"ARN": arn, "Name": arn.rpartition(":")[2]}

    def head_object(self, request: Json) -> Json:
        _known([f"s3://{request['Bucket']}/{request['Key']}"], self._account.objects, "404", "Not Found")
        return {}

    def put_object(self, _request: Json) -> Json:
        """The template builder uploads its nested stack."""
        return {}


_ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def _image(image_id: str, name: str, architecture: str, tags: dict[str, str]) -> Json:
    return {
        "ImageId": image_id,
        "Name": name,
        "Architecture": architecture,
        "State": "available",
        "CreationDate": "2026-01-01T00:00:00.000Z",
        # The published images have 35 GiB, images built from them a little more.
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 40, "SnapshotId": "snap-0"}}],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def _known(wanted: list[str], existing: Iterable[str], code: str, message: str) -> list[str]:
    for one in wanted:
        if one not in existing:
            raise _Refused(code, message.format(one))
    return wanted
