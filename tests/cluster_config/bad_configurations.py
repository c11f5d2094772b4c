"""Configurations that ParallelCluster must refuse, and its messages: proof that the check can fail.

Each is the local environment's configuration with one thing made wrong, in the configuration or in the account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.settings.conftest import GONE

QUEUE = "Scheduling.SlurmQueues.0"
GROUPS = f"{QUEUE}.Networking"
DIRECTORY = {
    "DomainName": "corp.example.com",
    "DomainAddr": "ldaps://ldap.corp.example.com",
    "DomainReadOnlyUser": "cn=reader",
    "PasswordSecretArn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:ldap-abcdef",
}
INSTANCE_TYPE = f"{QUEUE}.ComputeResources.0.InstanceType"
RESERVED: dict[str, Any] = {
    f"{QUEUE}.CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    f"{QUEUE}.Networking.PlacementGroup": {"Enabled": False},
}
UNKNOWN_POLICY = "arn:aws:iam::aws:policy/AmazonNoSuchPolicy"


@dataclass(frozen=True)
class Bad:
    """`says` is part of the schema's error, or of a message of `validator`.

    Args:
        edits: for `apply_edits`, in the configuration.
        account: what the account holds in another way.
    """

    says: str
    edits: Mapping[str, Any] = field(default_factory=dict)
    validator: str | None = None
    account: Mapping[str, Any] = field(default_factory=dict)


BAD: dict[str, Bad] = {
    "unknown-key": Bad("Unknown field", {"SlurmQueues": []}),
    "old-os": Bad("Must be one of", {"Image.Os": "alinux2"}),
    "bare-list-of-actions": Bad(
        "Either Script or Sequence field must be provided",
        {"HeadNode.CustomActions.OnNodeConfigured": [{"Script": "s3://example-assets/a.sh"}]},
    ),
    "lustre-with-extra-keys": Bad(
        "cannot be specified when an existing Lustre", {"SharedStorage.0.FsxLustreSettings.StorageCapacity": 1200}
    ),
    "unopened-group": Bad(
        "988",
        {f"{GROUPS}.AdditionalSecurityGroups": GONE, f"{GROUPS}.SecurityGroups": ["sg-foreign0000000000"]},
        "ExistingFsxNetworkingValidator",
    ),
    "capacity-block": Bad(
        "Min count must be a value > 0",
        {f"{QUEUE}.CapacityType": "CAPACITY_BLOCK", **RESERVED},
        "ComputeResourceSizeValidator",
    ),
    "reservation-of-another-type": Bad(
        "must have the same instance type",
        RESERVED,
        "CapacityReservationValidator",
        {"reservations": {"cr-0123456789abcdef0": {"instance_type": "p4d.24xlarge", "count": 2}}},
    ),
    "no-such-reservation": Bad("does not exist", RESERVED, "AWSClientError", {"reservations": {}}),
    "implicit-placement-group": Bad(
        "must be explicit", {f"{QUEUE}.Networking.PlacementGroup": GONE}, "EfaPlacementGroupValidator"
    ),
    "efa-on-a-type-without": Bad("does not support EFA", {INSTANCE_TYPE: "c7i.xlarge"}, "EfaValidator"),
    "unknown-type": Bad("p99.48xlarge", {INSTANCE_TYPE: "p99.48xlarge"}, "AWSClientError"),
    "one-mount-twice": Bad("/fsx", {"SharedStorage.1.MountDir": "/fsx"}, "DuplicateMountDirValidator"),
    "unknown-aws-policy": Bad(
        "AmazonNoSuchPolicy",
        {"HeadNode.Iam.AdditionalIamPolicies.0": {"Policy": UNKNOWN_POLICY}},
        "AdditionalIamPolicyValidator",
    ),
    "unknown-policy": Bad("parallelcluster-head", {}, "AdditionalIamPolicyValidator", {"policy_arns": []}),
    "small-root-volume": Bad(
        "Root volume size 20 GiB", {"HeadNode.LocalStorage.RootVolume.Size": 20}, "RootVolumeSizeValidator"
    ),
    "rsa-key-on-ubuntu": Bad(
        "does not support RSA keys",
        {"HeadNode.Ssh.KeyName": "operators"},
        "KeyPairValidator",
        {"key_types": {"operators": "rsa"}},
    ),
    "no-such-file-system": Bad("does not exist", {}, "AWSClientError", {"lustre_ids": []}),
    "no-such-volume": Bad("does not exist", {}, "AWSClientError", {"openzfs_volume_ids": []}),
    "zone-without-the-type": Bad(
        "m7i.2xlarge) is not supported", {}, "HeadNodeLaunchTemplateValidator", {"zone_id": "use1-az3"}
    ),
    "domain-of-a-directory": Bad(
        "Unsupported domain address format",
        {"DirectoryService": {**DIRECTORY, "DomainName": "cn=x"}},
        "DomainNameValidator",
    ),
    "provider-of-a-directory": Bad(
        "Cannot override the SSSD property 'id_provider'",
        {"DirectoryService": {**DIRECTORY, "AdditionalSssdConfigs": {"id_provider": "ad"}}},
        "AdditionalSssdConfigsValidator",
    ),
    "public-compute-subnet": Bad(
        "auto-assign public IPs",
        {},
        "MultiNetworkInterfacesInstancesValidator",
        {"public_subnet_ids": ["subnet-private0000000000"]},
    ),
}
