"""What moto lacks, answered here from the seeds.

Each answer stands in for one that AWS would give about resources that exist; about others it is the error that AWS
gives. So every validator still runs and still fails on what is not there. The gaps, seen in moto 5.2.5:

- FSx DescribeFileSystems: ids of 8 hex digits where the schema demands 17, no VpcId, no network interfaces.
- FSx DescribeVolumes, EC2 DescribeCapacityReservations and DescribeCapacityBlockStatus, Resource Groups
  ListGroupResources and GetGroupConfiguration of reservations: not implemented.
- EC2 DescribeKeyPairs: no KeyType.
- EC2 RunInstances as a dry run: breaks on block devices without a size (ephemeral ones); they are left out of the
  request. It does not ask whether the zone offers the type, which is asked here.
- Secrets Manager DescribeSecret: a secret cannot be made under a given ARN.
- IAM GetPolicy: policies of other accounts than moto's cannot be made, and loading AWS's own takes two seconds a
  world; their names come from moto's list of them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto.iam.aws_managed_policies import aws_managed_policies_data

from parallelcluster.seeds import Seeds

Answer = tuple[AWSResponse, dict[str, Any]]
Events = Any
"""botocore's event emitter; its stubs know no handlers that answer."""

ACCOUNT = "123456789012"
OPENZFS_FILE_SYSTEM_ID = "fs-0123456789abcde2f"


class Gaps:
    """Answers for one world: its VPC, subnet, zone by name, the network interface of each file system, and the instance
    types that the zone offers.
    """

    def __init__(
        self,
        seeds: Seeds,
        *,
        vpc_id: str,
        subnet_id: str,
        zone: str,
        interfaces: Mapping[str, str],
        offered: frozenset[str],
    ) -> None:
        self._seeds = seeds
        self._zone = zone
        self._vpc_id = vpc_id
        self._subnet_id = subnet_id
        self._interfaces = interfaces
        self._offered = offered

    def register(self, events: Events) -> None:
        """Answer the calls of every client that is made from the session of `events` from now on."""
        answers: dict[str, Callable[[dict[str, Any]], Answer | None]] = {
            "fsx.DescribeFileSystems": self._file_systems,
            "fsx.DescribeVolumes": self._volumes,
            "ec2.DescribeCapacityReservations": self._reservations,
            "ec2.DescribeCapacityBlockStatus": self._block_status,
            "ec2.DescribeKeyPairs": self._key_pairs,
            "ec2.RunInstances": self._dry_run,
            "resource-groups.GetGroupConfiguration": self._group_configuration,
            "resource-groups.ListGroupResources": self._group_resources,
            "iam.GetPolicy": self._policy,
            "secrets-manager.DescribeSecret": self._secret,
        }
        for call, answer in answers.items():
            events.register(f"before-call.{call}", _handler(answer))
        events.register("provide-client-params.ec2.RunInstances", _without_sizeless_devices)

    def _file_systems(self, request: dict[str, Any]) -> Answer:
        ids = request.get("FileSystemIds", [])
        for identifier in ids:
            if identifier not in self._interfaces:
                return _error("FileSystemNotFound", f"File system '{identifier}' does not exist.")
        return _success(FileSystems=[self._file_system(identifier) for identifier in ids])

    def _file_system(self, identifier: str) -> dict[str, Any]:
        lustre = identifier in self._seeds.lustre_ids
        return {
            "FileSystemId": identifier,
            "FileSystemType": "LUSTRE" if lustre else "OPENZFS",
            "Lifecycle": "AVAILABLE",
            "VpcId": self._vpc_id,
            "SubnetIds": [self._subnet_id],
            "NetworkInterfaceIds": [self._interfaces[identifier]],
            "DNSName": f"{identifier}.fsx.{self._seeds.region}.amazonaws.com",
            **({"LustreConfiguration": {"MountName": "abcdefgh"}} if lustre else {}),
        }

    def _volumes(self, request: dict[str, Any]) -> Answer:
        ids = request.get("VolumeIds", [])
        for identifier in ids:
            if identifier not in self._seeds.openzfs_volume_ids:
                return _error("VolumeNotFound", f"Volume '{identifier}' does not exist.")
        return _success(
            Volumes=[
                {
                    "VolumeId": identifier,
                    "VolumeType": "OPENZFS",
                    "Lifecycle": "AVAILABLE",
                    "FileSystemId": OPENZFS_FILE_SYSTEM_ID,
                    "OpenZFSConfiguration": {"VolumePath": f"/fsx/{identifier}"},
                }
                for identifier in ids
            ]
        )

    def _reservations(self, request: dict[str, Any]) -> Answer:
        found = []
        for identifier in _members(request, "CapacityReservationId"):
            reservation = self._seeds.reservations.get(identifier)
            if reservation is None:
                return _error(
                    "InvalidCapacityReservationId.NotFound",
                    f"The capacity reservation ID '{identifier}' does not exist",
                )
            found.append(
                {
                    "CapacityReservationId": identifier,
                    "CapacityReservationArn": self._reservation_arn(identifier),
                    "InstanceType": reservation.instance_type,
                    "InstancePlatform": "Linux/UNIX",
                    "AvailabilityZone": self._zone,
                    "TotalInstanceCount": reservation.count,
                    "AvailableInstanceCount": reservation.count,
                    "State": "active",
                    "ReservationType": reservation.kind,
                    "InstanceMatchCriteria": "targeted",
                    "Tags": [],
                }
            )
        return _success(CapacityReservations=found)

    def _block_status(self, request: dict[str, Any]) -> Answer:
        return _success(
            CapacityBlockStatuses=[
                {"CapacityBlockId": identifier, "InterconnectStatus": "ok", "TotalUnavailableCapacity": 0}
                for identifier in _members(request, "CapacityBlockId")
            ]
        )

    def _dry_run(self, request: dict[str, Any]) -> Answer | None:
        instance_type = request.get("InstanceType")
        if instance_type in self._offered:
            return None  # moto looks at the rest
        return _error(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
            f"({self._zone}).",
        )

    def _key_pairs(self, request: dict[str, Any]) -> Answer:
        names = _members(request, "KeyName")
        for name in names:
            if name not in self._seeds.key_types:
                return _error("InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist")
        return _success(KeyPairs=[{"KeyName": name, "KeyType": self._seeds.key_types[name]} for name in names])

    def _group_configuration(self, request: dict[str, Any]) -> Answer:
        if request.get("Group") not in self._seeds.reservation_groups:
            return _error("NotFoundException", f"Cannot find group: {request.get('Group')}")
        return _success(GroupConfiguration={"Configuration": [{"Type": "AWS::EC2::CapacityReservationPool"}]})

    def _group_resources(self, request: dict[str, Any]) -> Answer:
        group = request.get("Group", "")
        if group not in self._seeds.reservation_groups:
            return _error("NotFoundException", f"Cannot find group: {group}")
        identifiers = [
            {
                "ResourceArn": self._reservation_arn(identifier),
                "ResourceType": "AWS::EC2::CapacityReservation",
            }
            for identifier in sorted(self._seeds.reservation_groups[group])
        ]
        return _success(Resources=[{"Identifier": identifier} for identifier in identifiers])

    def _secret(self, request: dict[str, Any]) -> Answer:
        arn = request.get("SecretId", "")
        if arn not in self._seeds.secret_arns:
            return _error("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
        return _success(ARN=arn, Name=arn.rpartition(":")[2])

    def _policy(self, request: dict[str, Any]) -> Answer:
        arn = request.get("PolicyArn", "")
        owner, _, path = arn.removeprefix(f"arn:{_partition(self._seeds.region)}:iam::").partition(":policy")
        exists = path in _aws_policies() if owner == "aws" else arn in self._seeds.policy_arns
        if not exists:
            return _error("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.")
        return _success(Policy={"Arn": arn, "PolicyName": arn.rpartition("/")[2], "IsAttachable": True})

    def _reservation_arn(self, identifier: str) -> str:
        region = self._seeds.region
        return f"arn:{_partition(region)}:ec2:{region}:{ACCOUNT}:capacity-reservation/{identifier}"


@functools.cache
def _aws_policies() -> frozenset[str]:
    """Paths of AWS's managed policies, such as /AmazonSSMManagedInstanceCore."""
    policies: dict[str, Any] = json.loads(aws_managed_policies_data)
    return frozenset(policy.get("Path", "/") + name for name, policy in policies.items())


def _partition(region: str) -> str:
    return str(boto3.session.Session().get_partition_for_region(region))


def _handler(answer: Callable[[dict[str, Any]], Answer | None]) -> Callable[..., Answer | None]:
    def handle(params: dict[str, Any], **_: object) -> Answer | None:
        body = params["body"]
        # JSON services have serialized their request already, EC2 has not.
        return answer(body if isinstance(body, dict) else json.loads(body))

    return handle


def _without_sizeless_devices(params: dict[str, Any], **_: object) -> dict[str, Any] | None:
    if "BlockDeviceMappings" not in params:
        return None
    devices = [d for d in params["BlockDeviceMappings"] if d.get("Ebs", {}).get("VolumeSize")]
    return {**params, "BlockDeviceMappings": devices}


def _members(request: dict[str, Any], key: str) -> list[str]:
    """A list of EC2's query protocol: Key.1, Key.2, ..."""
    return [value for name, value in sorted(request.items()) if name.startswith(f"{key}.")]


def _success(**body: object) -> Answer:
    return _response(200), {**body, "ResponseMetadata": {"HTTPStatusCode": 200}}


def _error(code: str, message: str) -> Answer:
    return _response(400), {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }


def _response(status: int) -> AWSResponse:
    return AWSResponse("", status, HTTPHeaders(), None)
