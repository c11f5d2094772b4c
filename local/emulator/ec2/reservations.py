"""Capacity reservations and capacity blocks, which seeds put into an account."""

from __future__ import annotations

import datetime
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region

from local.emulator.ec2 import catalogue
from local.emulator.service import ApiError
from local.emulator.wire import answers, matches, page

RESERVATIONS: Any = AccountRegionScopedDict()


def add(*, instance_type: str, zone_id: str, count: int, block: bool, reservation_id: str) -> dict[str, Any]:
    """Record a reservation; raises ApiError for a type or zone that the region does not offer."""
    zone = catalogue.zone_name(zone_id)
    if zone is None:
        raise ApiError("InvalidParameterValue", f"Invalid availability zone id: {zone_id} in {get_region()}")
    if not catalogue.offered(instance_type, zone_id):
        raise ApiError("Unsupported", f"{instance_type} is not offered in {zone_id} ({get_region()})")
    if count < 1:
        raise ApiError("InvalidParameterValue", f"Instance count {count} is not at least 1")
    now = datetime.datetime.now(datetime.UTC)
    arn = f"arn:aws:ec2:{get_region()}:{get_account_id()}:capacity-reservation/{reservation_id}"
    record: dict[str, Any] = {
        "CapacityReservationId": reservation_id,
        "OwnerId": get_account_id(),
        "CapacityReservationArn": arn,
        "InstanceType": instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": zone,
        "AvailabilityZoneId": zone_id,
        "Tenancy": "default",
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count,
        "EbsOptimized": True,
        "EphemeralStorage": False,
        "State": "active",
        "StartDate": now,
        "CreateDate": now,
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "default",
        "Tags": [],
    }
    if block:
        ends = now + datetime.timedelta(days=14)
        record |= {"ReservationType": "capacity-block", "EndDateType": "limited", "EndDate": ends}
    RESERVATIONS[reservation_id] = record
    return record


def get(reservation_id: str) -> dict[str, Any]:
    """A reservation by id; raises ApiError when there is none."""
    record: dict[str, Any] | None = RESERVATIONS.get(reservation_id)
    if record is None:
        raise ApiError(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{reservation_id}' does not exist"
        )
    return record


def take(reservation_id: str, count: int) -> None:
    """Let instances run in a reservation; raises ApiError where it has no room for them."""
    record = get(reservation_id)
    if record["AvailableInstanceCount"] < count:
        raise ApiError(
            "ReservationCapacityExceeded",
            f"{reservation_id} has no sufficient compatible and available capacity for {count} instances",
        )
    record["AvailableInstanceCount"] -= count


def give_back(reservation_id: str) -> None:
    """One of its instances has ended."""
    record = RESERVATIONS.get(reservation_id)
    if record is not None:
        record["AvailableInstanceCount"] = min(record["AvailableInstanceCount"] + 1, record["TotalInstanceCount"])


def install() -> None:
    """Replace ministack's empty answer."""

    @answers("DescribeCapacityReservations")
    def describe(request: dict[str, Any]) -> dict[str, Any]:
        ids = request.get("CapacityReservationIds")
        found = [get(wanted) for wanted in ids] if ids else list(RESERVATIONS.values())
        found = [record for record in found if matches(request, record)]
        return page(request, found, "CapacityReservations")

    @answers("CancelCapacityReservation")
    def cancel(request: dict[str, Any]) -> dict[str, Any]:
        get(request["CapacityReservationId"])["State"] = "cancelled"
        return {"Return": True}
