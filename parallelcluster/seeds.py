"""What stands in the AWS account that a configuration is checked against.

Whatever a configuration names by id, ARN or name is taken to exist, in one VPC and one zone, and to be what the
configuration says it is. Overrides say otherwise: that something does not exist, or is something else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Json = Mapping[str, Any]


class SeedError(ValueError):
    """Overrides that make no world; the message names the key, the value and what is allowed."""


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation. `kind` is `default` (on demand) or `capacity-block`."""

    instance_type: str
    count: int
    kind: str = "default"


@dataclass(frozen=True)
class Seeds:
    """The world.

    Attributes:
        region: its region.
        zone_id: availability zone of all subnets, by id (use1-az4); left out, the region's first.
        vpc_cidr: CIDR of the VPC, which holds all the subnets.
        subnet_ids: the subnets.
        public_subnet_ids: those that have a route to an internet gateway and give public addresses.
        node_security_group_ids: groups that the file systems let in, on their own ports and nothing else.
        other_security_group_ids: groups that stand there and open nothing.
        lustre_ids: FSx for Lustre file systems.
        openzfs_volume_ids: volumes of one FSx for OpenZFS file system.
        reservations: by id.
        reservation_groups: ids of reservations, by the ARN of their resource group.
        image_ids: AMIs of the account for x86_64, built by `pcluster build-image` for `image_os`.
        image_os: their operating system.
        policy_arns: managed policies of the account. AWS's own are all there.
        buckets: names of buckets.
        objects: s3:// URIs of objects in them.
        key_types: ed25519 or rsa, by the name of the EC2 key pair.
        secret_arns: secrets of Secrets Manager.
    """

    region: str
    zone_id: str | None = None
    vpc_cidr: str = "10.0.0.0/16"
    subnet_ids: frozenset[str] = frozenset()
    public_subnet_ids: frozenset[str] = frozenset()
    node_security_group_ids: frozenset[str] = frozenset()
    other_security_group_ids: frozenset[str] = frozenset()
    lustre_ids: frozenset[str] = frozenset()
    openzfs_volume_ids: frozenset[str] = frozenset()
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    reservation_groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    image_ids: frozenset[str] = frozenset()
    image_os: str = ""
    policy_arns: frozenset[str] = frozenset()
    buckets: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    key_types: Mapping[str, str] = field(default_factory=dict)
    secret_arns: frozenset[str] = frozenset()


def seeds_for(configuration: Json, overrides: Json) -> Seeds:
    """The world that `configuration` speaks of, with `overrides` (attributes of `Seeds`, as JSON) put in.

    Raises:
        SeedError: no region; an override that is no attribute of `Seeds` or has the wrong shape.
    """
    known = {f.name for f in fields(Seeds)}
    if unknown := sorted(set(overrides) - known):
        raise SeedError(f"The world has {', '.join(unknown)}; allowed are {', '.join(sorted(known))}.")
    found: dict[str, Any] = {
        "subnet_ids": _matching(configuration, r"subnet-\w+"),
        "lustre_ids": _values(configuration, "FileSystemId", within="FsxLustreSettings"),
        "openzfs_volume_ids": _values(configuration, "VolumeId", within="FsxOpenZfsSettings"),
        "node_security_group_ids": _values(configuration, "AdditionalSecurityGroups"),
        "other_security_group_ids": _values(configuration, "SecurityGroups"),
        "image_ids": _values(configuration, "CustomAmi"),
        "policy_arns": _values(configuration, "Policy") | _values(configuration, "PermissionsBoundary"),
        "objects": frozenset(uri for uri in _values(configuration, "Script") if uri.startswith("s3://")),
        "image_os": configuration["Image"]["Os"],
        "key_types": dict.fromkeys(_values(configuration, "KeyName", within="Ssh"), "ed25519"),
        "secret_arns": _values(configuration, "PasswordSecretArn"),
        "reservations": _reservations(configuration),
        "reservation_groups": _reservation_groups(configuration),
    }
    for reservation_ids in found["reservation_groups"].values():
        found["reservations"].update(dict.fromkeys(reservation_ids, _of_the_group(configuration)))
    found["buckets"] = _values(configuration, "BucketName") | {uri.split("/")[2] for uri in found["objects"]}
    found.update({name: _override(name, value) for name, value in overrides.items()})
    return Seeds(**{**found, "region": region_of(configuration, overrides)})


def region_of(configuration: Json, overrides: Json) -> str:
    """The region of the world.

    Raises:
        SeedError: neither the overrides nor the configuration name one.
    """
    region = overrides.get("region") or configuration.get("Region")
    if not isinstance(region, str):
        raise SeedError("The configuration has no Region and the world no region; name one of the two.")
    return region


def _override(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name in ("region", "zone_id", "vpc_cidr", "image_os"):
        return value
    try:
        if name == "reservations":
            return {key: Reservation(**item) for key, item in value.items()}
        if name == "key_types":
            return dict(value)
        if name == "reservation_groups":
            return {key: frozenset(item) for key, item in value.items()}
        return frozenset(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise SeedError(f"The world's {name} is {value!r}, which does not fit: {error}.") from error


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


def _values(configuration: Json, key: str, within: str | None = None) -> frozenset[str]:
    return frozenset(
        value
        for path, value in _walk(configuration)
        if path[-1:] == (key,) and (within is None or path[-2:-1] == (within,))
    )


def _matching(configuration: Json, pattern: str) -> frozenset[str]:
    return frozenset(value for _, value in _walk(configuration) if re.fullmatch(pattern, value))


def _targets(configuration: Json) -> Iterator[tuple[Json, str, int, str]]:
    """Each reservation target with the instance type, the count and the kind that its compute resource asks for."""
    for queue in configuration["Scheduling"]["SlurmQueues"]:
        kind = "capacity-block" if queue.get("CapacityType") == "CAPACITY_BLOCK" else "default"
        for compute in queue["ComputeResources"]:
            key = "CapacityReservationTarget"
            target = compute.get(key) or queue.get(key)
            if target:
                instances = compute.get("Instances") or [{"InstanceType": compute.get("InstanceType", "")}]
                yield target, instances[0]["InstanceType"], compute.get("MaxCount", 10), kind


def _reservations(configuration: Json) -> dict[str, Reservation]:
    return {
        target["CapacityReservationId"]: Reservation(instance_type, count, kind)
        for target, instance_type, count, kind in _targets(configuration)
        if "CapacityReservationId" in target
    }


def _reservation_groups(configuration: Json) -> dict[str, frozenset[str]]:
    arns = {
        target["CapacityReservationResourceGroupArn"]
        for target, *_ in _targets(configuration)
        if "CapacityReservationResourceGroupArn" in target
    }
    return {arn: frozenset({f"cr-{hashlib.sha256(arn.encode()).hexdigest()[:17]}"}) for arn in arns}


def _of_the_group(configuration: Json) -> Reservation:
    _, instance_type, count, kind = next(
        t for t in _targets(configuration) if "CapacityReservationResourceGroupArn" in t[0]
    )
    return Reservation(instance_type, count, kind)
