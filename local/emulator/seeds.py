"""What exists in an account before a deployment: bought reservations, raised quotas and the like.

A seeds file is JSON; every key may be absent:

    {"capacity_reservations": [{"id": "cr-0123456789abcdef0", "instance_type": "p5e.48xlarge",
                                "zone_id": "apse3-az1", "count": 80, "type": "on-demand"}],
     "ssm_parameters": {"/images/base": "ami-0123456789abcdef0"},
     "quotas": [{"quota": "ec2/L-417A185B", "value": 384}],
     "instances": [{"instance_type": "p5.48xlarge", "count": 1, "lifecycle": "spot"}],
     "not_offered": [{"instance_type": "p5.48xlarge", "zone_id": "use1-az4"}],
     "missing_images": ["aws-parallelcluster-*-ubuntu-2204-*"],
     "policies": ["arn:aws:iam::111122223333:policy/boundary"],
     "secrets": ["arn:aws:secretsmanager:us-east-1:111122223333:secret:slurm-AbCdEf"],
     "networks": [{"vpc_id": "vpc-0123456789abcdef0", "cidr": "10.0.0.0/16", "zone_id": "use1-az4",
                   "subnets": {"subnet-0123456789abcdef0": "10.0.0.0/17"}}],
     "taken_buckets": ["acme-data"]}

A reservation's `type` is on-demand (the default) or capacity-block, `count` a number of instances. It may have
`available` (free instances, all by default), `state` (active), `tenancy` (default), `platform` (Linux/UNIX), `owner`
(an account id), `starts` and `ends` (ISO 8601). A `quota` is named by service and code (quotas.py). `instances` run in
the account's default VPC; `lifecycle` is on-demand (the default), spot or capacity-block, `reservation` the id of the
one whose room they take, `tags` a mapping. `taken_buckets` belong to another account. `policies` allow everything:
permissions boundaries are meant. `networks` are VPCs with private subnets by id.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.services import ec2, iam, s3, secretsmanager, ssm

from local.emulator import quotas
from local.emulator.ec2 import catalogue, images, reservations
from local.emulator.service import ApiError

TYPES = ("on-demand", "capacity-block")
LIFECYCLES = ("on-demand", "spot", "capacity-block")
OTHER_ACCOUNT = "999988887777"


class SeedError(ValueError):
    """A seeds file that does not fit its format or the region."""


def put(seeds: dict[str, Any]) -> None:
    """Put seeds into the current account and region; they replace those of the same name.

    Raises:
        SeedError: naming the entry at fault.
    """
    if unknown := sorted(set(seeds) - set(_ACTS)):
        raise SeedError(f"seeds: unknown {', '.join(unknown)}; allowed: {', '.join(_ACTS)}")
    # In the order of _ACTS: what is taken away comes last, because earlier entries may need it.
    for key, act in _ACTS.items():
        given = seeds.get(key, [])
        for index, entry in enumerate(given.items() if isinstance(given, dict) else given):
            try:
                act(entry)
            except KeyError as error:
                raise SeedError(f"seeds: {key}[{index}] lacks {error}") from error
            except (ApiError, TypeError, ValueError) as error:
                raise SeedError(f"seeds: {key}[{index}]: {error}") from error


def put_into(given: dict[str, Any]) -> None:
    """Put {seeds, account, region}; without an account into the emulator's first one."""
    with request_scope(given["account"] or get_account_id(), given["region"] or get_region()):
        put(given["seeds"])


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
    return value


def _reserve(entry: dict[str, Any]) -> None:
    kind = _one_of("type", entry.get("type", "on-demand"), TYPES)
    times = {key: _time(entry[name]) for name, key in (("starts", "StartDate"), ("ends", "EndDate")) if name in entry}
    earlier = reservations.RESERVATIONS.pop(entry["id"], None)
    try:
        record = reservations.add(
            reservation_id=entry["id"],
            instance_type=entry["instance_type"],
            zone_id=entry["zone_id"],
            count=int(entry["count"]),
            block=kind == "capacity-block",
        )
    except (ApiError, KeyError, ValueError):
        if earlier:
            reservations.RESERVATIONS[entry["id"]] = earlier
        raise
    taken = earlier["TotalInstanceCount"] - earlier["AvailableInstanceCount"] if earlier else 0
    record |= {
        "AvailableInstanceCount": int(entry.get("available", max(record["TotalInstanceCount"] - taken, 0))),
        "State": entry.get("state", "active"),
        "Tenancy": entry.get("tenancy", "default"),
        "InstancePlatform": entry.get("platform", "Linux/UNIX"),
        "OwnerId": entry.get("owner", get_account_id()),
        **times,
        **({"EndDateType": "limited"} if "EndDate" in times else {}),
    }


def _time(text: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        found = datetime.datetime.min
    if found.tzinfo is None:
        raise ValueError(f"{text!r} is not a time such as 2026-11-21T12:00:00+00:00")
    return found.astimezone(datetime.UTC)


def _parameter(entry: tuple[str, Any]) -> None:
    name, value = entry
    ssm._put_parameter({"Name": name, "Value": str(value), "Type": "String", "Overwrite": True})


def _run_instances(
    *,
    instance_type: str,
    count: int = 1,
    lifecycle: str = "on-demand",
    reservation: str | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    if instance_type not in catalogue.instance_types():
        raise ValueError(f"The instance type '{instance_type}' does not exist")
    _one_of("lifecycle", lifecycle, LIFECYCLES)
    if reservation:
        reservations.take(reservation, count)
    ec2._ensure_defaults_initialized()
    subnet = next(subnet for subnet in ec2._subnets.values() if subnet.get("DefaultForAz"))
    made = ec2._launch_instances_internal(
        image_id="ami-00000000", instance_type=instance_type, subnet_id=subnet["SubnetId"], count=count
    )
    for instance in made:
        instance |= {"InstanceLifecycle": lifecycle, "CapacityReservationId": reservation}
        ec2._tags[instance["InstanceId"]] = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


def _take_bucket_name(name: str) -> None:
    if s3._bucket_owner_account(name) is not None:
        return
    region = get_region()
    location = b""
    if region != "us-east-1":
        location = (
            '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>'
            f"{region}</LocationConstraint></CreateBucketConfiguration>"
        ).encode()
    with request_scope(OTHER_ACCOUNT, region):
        status, _headers, body = s3._create_bucket(name, location, {})
    if status >= 400:
        raise ValueError(f"{name}: {body!r}")


def _policy(arn: str) -> None:
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    iam.store_policy(arn, arn.rpartition("/")[2], "/", document)


def _secret(arn: str) -> None:
    name = arn.rpartition(":")[2]
    secretsmanager._store_new_secret(name, secret_string="emulated")  # noqa: S106 - of no database
    secretsmanager._secrets[name]["ARN"] = arn


def _network(*, vpc_id: str, cidr: str, zone_id: str, subnets: dict[str, str]) -> None:
    if vpc_id in ec2._vpcs:
        return
    # ministack chooses the ids of what it creates.
    with mock.patch.object(ec2, "_new_vpc_id", lambda: vpc_id):
        ec2._create_vpc({"CidrBlock": [cidr]})
    for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2._modify_vpc_attribute({"VpcId": [vpc_id], f"{attribute}.Value": ["true"]})
    for subnet_id, block in subnets.items():
        with mock.patch.object(ec2, "_new_subnet_id", lambda subnet_id=subnet_id: subnet_id):
            ec2._create_subnet({"VpcId": [vpc_id], "CidrBlock": [block], "AvailabilityZoneId": [zone_id]})


_ACTS: dict[str, Callable[[Any], None]] = {
    "capacity_reservations": _reserve,
    "ssm_parameters": _parameter,
    "quotas": lambda entry: quotas.apply(entry["quota"], float(entry["value"])),
    "instances": lambda entry: _run_instances(**entry),
    "not_offered": lambda entry: catalogue.withdraw(entry["instance_type"], entry["zone_id"]),
    "missing_images": images.MISSING.add,
    "policies": _policy,
    "secrets": _secret,
    "networks": lambda entry: _network(**entry),
    "taken_buckets": _take_bucket_name,
}
