"""What else is in an account, or in AWS, before a deployment: instances that run, names of buckets that are taken."""

from __future__ import annotations

from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.services import ec2, s3

from local.emulator.ec2 import catalogue, reservations
from local.emulator.wire import Ec2Error

SOMEBODY = "999988887777"
"""The account of everything that is somebody else's."""

_MOMENTS = {"starts": "StartDate", "ends": "EndDate"}
LIFECYCLES = ("on-demand", "spot", "capacity-block")


def run_instances(
    *,
    instance_type: str,
    count: int = 1,
    lifecycle: str = "on-demand",
    reservation: str | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    """Let instances run in the account, in its default VPC, from a reservation if one is named.

    Raises:
        Ec2Error: an unknown type, or a reservation of another type or without room.
    """
    if instance_type not in catalogue.instance_types():
        raise Ec2Error("InvalidInstanceType", f"The instance type '{instance_type}' does not exist")
    if lifecycle not in LIFECYCLES:
        raise Ec2Error("InvalidParameterValue", f"lifecycle is {lifecycle!r}; allowed: {', '.join(LIFECYCLES)}")
    if reservation:
        reservations.take(reservation, count)
    ec2._ensure_defaults_initialized()
    subnet = next(subnet for subnet in ec2._subnets.values() if subnet.get("DefaultForAz"))
    made = ec2._launch_instances_internal(
        image_id="ami-00000000", instance_type=instance_type, subnet_id=subnet["SubnetId"], count=count
    )
    for instance in made:
        instance["InstanceLifecycle"] = lifecycle
        instance["CapacityReservationId"] = reservation
        ec2._tags[instance["InstanceId"]] = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


def take_bucket_name(name: str) -> None:
    """Make a bucket of that name in somebody else's account, where there is none yet."""
    if s3._bucket_owner_account(name) is not None:
        return
    region = get_region()
    with request_scope(SOMEBODY, region):
        status, _headers, body = s3._create_bucket(name, _location(region), {})
    if status >= 400:
        raise Ec2Error("InvalidBucketName", f"{name}: {body!r}")


def _location(region: str) -> bytes:
    if region == "us-east-1":
        return b""
    return (
        f'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>{region}'
        "</LocationConstraint></CreateBucketConfiguration>"
    ).encode()


def reserve(entry: dict[str, Any], *, block: bool) -> None:
    """Put a reservation into the account, in the place of one of the same id.

    Raises:
        Ec2Error: a type or zone that the region does not have.
        KeyError: a key is missing.
    """
    moments = {name: reservations.moment(entry[key]) for key, name in _MOMENTS.items() if key in entry}
    earlier = reservations.RESERVATIONS.pop(entry["id"], None)
    try:
        record = reservations.add(
            reservation_id=entry["id"],
            instance_type=entry["instance_type"],
            zone_id=entry["zone_id"],
            count=int(entry["count"]),
            block=block,
        )
    except (Ec2Error, KeyError, ValueError):
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
        **moments,
        **({"EndDateType": "limited"} if "EndDate" in moments else {}),
    }
