"""The AWS account that a configuration is checked against, without AWS.

Whatever a configuration names by id, ARN or name exists, in one VPC and one zone, and is what the configuration says it
is. Overrides change that: something does not exist, or is something else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Json = Mapping[str, Any]
Ids = frozenset[str]
_NONE: Ids = frozenset()


class AccountError(ValueError):
    """Overrides that do not fit; the message names the key, the value and the allowed keys."""


@dataclass(frozen=True)
class Account:
    """What exists.

    Attributes:
        region: the region of everything.
        zone_id: availability zone of all subnets, by id (use1-az4); left out, the region's first.
        subnet_ids: the subnets.
        public_subnet_ids: those with a route to an internet gateway and public addresses.
        node_security_group_ids: groups that the file systems let in, on their own ports only.
        other_security_group_ids: groups that the file systems do not let in.
        lustre_ids: FSx for Lustre file systems.
        openzfs_volume_ids: volumes of one FSx for OpenZFS file system.
        reservations: capacity reservations by id: instance_type, count and kind (default or capacity-block).
        reservation_groups: ids of reservations, by the ARN of their resource group.
        image_ids: AMIs of the account for x86_64, built by `pcluster build-image` for `image_os`.
        image_os: their operating system.
        policy_arns: managed policies of the account. AWS's own all exist.
        objects: s3:// URIs of objects.
        key_types: ed25519 or rsa, by the name of the EC2 key pair.
        secret_arns: secrets of Secrets Manager.
    """

    region: str
    zone_id: str = ""
    subnet_ids: Ids = _NONE
    public_subnet_ids: Ids = _NONE
    node_security_group_ids: Ids = _NONE
    other_security_group_ids: Ids = _NONE
    lustre_ids: Ids = _NONE
    openzfs_volume_ids: Ids = _NONE
    reservations: Mapping[str, Json] = field(default_factory=dict)
    reservation_groups: Mapping[str, list[str]] = field(default_factory=dict)
    image_ids: Ids = _NONE
    image_os: str = ""
    policy_arns: Ids = _NONE
    objects: Ids = _NONE
    key_types: Mapping[str, str] = field(default_factory=dict)
    secret_arns: Ids = _NONE


def account_for(configuration: Json, overrides: Json) -> Account:
    """The account that `configuration` describes, with `overrides` (attributes of `Account`, as JSON).

    Raises:
        AccountError: an override is not an attribute of `Account`, or has the wrong type.
    """
    known = {f.name for f in fields(Account)}
    if unknown := sorted(set(overrides) - known):
        raise AccountError(f"The account has no {', '.join(unknown)}; allowed are {', '.join(sorted(known))}.")
    targets = list(_targets(configuration))
    groups = {
        target["CapacityReservationResourceGroupArn"]: reservation
        for target, reservation in targets
        if "CapacityReservationResourceGroupArn" in target
    }
    members = {arn: f"cr-{hashlib.sha256(arn.encode()).hexdigest()[:17]}" for arn in groups}
    named = {
        target["CapacityReservationId"]: reservation
        for target, reservation in targets
        if "CapacityReservationId" in target
    }
    account: dict[str, Any] = {
        "region": region_of(configuration),
        "subnet_ids": frozenset(value for _, value in _walk(configuration) if re.fullmatch(r"subnet-\w+", value)),
        "lustre_ids": _values(configuration, "FileSystemId", within="FsxLustreSettings"),
        "openzfs_volume_ids": _values(configuration, "VolumeId", within="FsxOpenZfsSettings"),
        "node_security_group_ids": _values(configuration, "AdditionalSecurityGroups"),
        "other_security_group_ids": _values(configuration, "SecurityGroups"),
        "image_ids": _values(configuration, "CustomAmi"),
        "image_os": configuration["Image"]["Os"],
        "policy_arns": _values(configuration, "Policy") | _values(configuration, "PermissionsBoundary"),
        "objects": frozenset(uri for uri in _values(configuration, "Script") if uri.startswith("s3://")),
        "key_types": dict.fromkeys(_values(configuration, "KeyName", within="Ssh"), "ed25519"),
        "secret_arns": _values(configuration, "PasswordSecretArn"),
        "reservations": {**named, **{members[arn]: reservation for arn, reservation in groups.items()}},
        "reservation_groups": {arn: [member] for arn, member in members.items()},
    }
    for name, value in overrides.items():
        wanted = type(account.get(name, getattr(Account, name, "")))
        given = frozenset(value) if wanted is frozenset and isinstance(value, list) else value
        if not isinstance(given, wanted):
            raise AccountError(f"The account's {name} is {value!r}; it must be a {wanted.__name__}.")
        account[name] = given
    return Account(**account)


def region_of(configuration: Json) -> str:
    """The region of a configuration; raises AccountError where it names none."""
    region = configuration.get("Region")
    if not isinstance(region, str):
        raise AccountError("The configuration has no Region.")
    return region


def _walk(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every string of a structure with the keys above it; items of lists have their list's."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, path)
    elif isinstance(value, str):
        yield path, value


def _values(configuration: Json, key: str, within: str | None = None) -> Ids:
    return frozenset(
        value
        for path, value in _walk(configuration)
        if path[-1:] == (key,) and (within is None or path[-2:-1] == (within,))
    )


def _targets(configuration: Json) -> Iterator[tuple[Json, Json]]:
    """Each reservation target with the reservation that fits its compute resource."""
    for queue in configuration["Scheduling"]["SlurmQueues"]:
        kind = "capacity-block" if queue.get("CapacityType") == "CAPACITY_BLOCK" else "default"
        for compute in queue["ComputeResources"]:
            target = compute.get("CapacityReservationTarget") or queue.get("CapacityReservationTarget")
            if target:
                instances = compute.get("Instances") or [{"InstanceType": compute.get("InstanceType", "")}]
                count = compute.get("MaxCount", 10)
                yield target, {"instance_type": instances[0]["InstanceType"], "count": count, "kind": kind}
