"""Configurations that ParallelCluster must refuse, and its messages: proof that the check can fail.

Each is the local environment's configuration with one thing made wrong, in the configuration or in the account.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Configuration = dict[str, Any]


@dataclass(frozen=True)
class Bad:
    """`break_it` changes the configuration in place, `account` overrides what the account holds. `says` is part of the
    schema's error, or of a message of `validator`.
    """

    says: str
    break_it: Callable[[Configuration], None] = lambda _: None
    account: dict[str, Any] = field(default_factory=dict)
    validator: str | None = None


def _queue(configuration: Configuration) -> Configuration:
    queue: Configuration = configuration["Scheduling"]["SlurmQueues"][0]
    return queue


def _unknown_key(configuration: Configuration) -> None:
    configuration["SlurmQueues"] = []


def _old_os(configuration: Configuration) -> None:
    configuration["Image"]["Os"] = "alinux2"


def _bare_list_of_actions(configuration: Configuration) -> None:
    configuration["HeadNode"]["CustomActions"]["OnNodeConfigured"] = [{"Script": "s3://example-assets/a.sh"}]


def _lustre_with_extra_keys(configuration: Configuration) -> None:
    configuration["SharedStorage"][0]["FsxLustreSettings"]["StorageCapacity"] = 1200


def _unopened_group(configuration: Configuration) -> None:
    networking = _queue(configuration)["Networking"]
    del networking["AdditionalSecurityGroups"]
    networking["SecurityGroups"] = ["sg-foreign0000000000"]


def _capacity_block(configuration: Configuration) -> None:
    queue = _queue(configuration)
    queue["CapacityType"] = "CAPACITY_BLOCK"
    queue["CapacityReservationTarget"] = {"CapacityReservationId": "cr-0123456789abcdef0"}
    queue["Networking"]["PlacementGroup"] = {"Enabled": False}


def _reservation(configuration: Configuration) -> None:
    _capacity_block(configuration)
    _queue(configuration)["CapacityType"] = "ONDEMAND"


def _implicit_placement_group(configuration: Configuration) -> None:
    del _queue(configuration)["Networking"]["PlacementGroup"]


def _efa_on_a_type_without(configuration: Configuration) -> None:
    _queue(configuration)["ComputeResources"][0]["InstanceType"] = "c7i.xlarge"


def _unknown_type(configuration: Configuration) -> None:
    _queue(configuration)["ComputeResources"][0]["InstanceType"] = "p99.48xlarge"


def _one_mount_twice(configuration: Configuration) -> None:
    configuration["SharedStorage"][1]["MountDir"] = configuration["SharedStorage"][0]["MountDir"]


def _unknown_aws_policy(configuration: Configuration) -> None:
    policies = configuration["HeadNode"]["Iam"]["AdditionalIamPolicies"]
    policies.append({"Policy": "arn:aws:iam::aws:policy/AmazonNoSuchPolicy"})


def _key_pair(configuration: Configuration) -> None:
    configuration["HeadNode"]["Ssh"]["KeyName"] = "operators"


def _small_root_volume(configuration: Configuration) -> None:
    configuration["HeadNode"]["LocalStorage"]["RootVolume"]["Size"] = 20


BAD: dict[str, Bad] = {
    "unknown-key": Bad("Unknown field", _unknown_key),
    "old-os": Bad("Must be one of", _old_os),
    "bare-list-of-actions": Bad("Either Script or Sequence field must be provided", _bare_list_of_actions),
    "lustre-with-extra-keys": Bad("cannot be specified when an existing Lustre", _lustre_with_extra_keys),
    "unopened-group": Bad("988", _unopened_group, validator="ExistingFsxNetworkingValidator"),
    "capacity-block": Bad("Min count must be a value > 0", _capacity_block, validator="ComputeResourceSizeValidator"),
    "reservation-of-another-type": Bad(
        "must have the same instance type",
        _reservation,
        {"reservations": {"cr-0123456789abcdef0": {"instance_type": "p4d.24xlarge", "count": 2}}},
        "CapacityReservationValidator",
    ),
    "no-such-reservation": Bad("does not exist", _reservation, {"reservations": {}}, "AWSClientError"),
    "implicit-placement-group": Bad(
        "must be explicit", _implicit_placement_group, validator="EfaPlacementGroupValidator"
    ),
    "efa-on-a-type-without": Bad("does not support EFA", _efa_on_a_type_without, validator="EfaValidator"),
    "unknown-type": Bad("p99.48xlarge", _unknown_type, validator="AWSClientError"),
    "one-mount-twice": Bad("/fsx", _one_mount_twice, validator="DuplicateMountDirValidator"),
    "unknown-aws-policy": Bad("AmazonNoSuchPolicy", _unknown_aws_policy, validator="AdditionalIamPolicyValidator"),
    "unknown-policy": Bad(
        "parallelcluster-head", account={"policy_arns": []}, validator="AdditionalIamPolicyValidator"
    ),
    "small-root-volume": Bad("Root volume size 20 GiB", _small_root_volume, validator="RootVolumeSizeValidator"),
    "rsa-key-on-ubuntu": Bad(
        "does not support RSA keys", _key_pair, {"key_types": {"operators": "rsa"}}, "KeyPairValidator"
    ),
    "no-such-file-system": Bad("does not exist", account={"lustre_ids": []}, validator="AWSClientError"),
    "no-such-volume": Bad("does not exist", account={"openzfs_volume_ids": []}, validator="AWSClientError"),
    "zone-without-the-type": Bad(
        "m7i.2xlarge) is not supported", account={"zone_id": "use1-az3"}, validator="HeadNodeLaunchTemplateValidator"
    ),
    "public-compute-subnet": Bad(
        "auto-assign public IPs",
        account={"public_subnet_ids": ["subnet-private0000000000"]},
        validator="MultiNetworkInterfacesInstancesValidator",
    ),
}
