"""What a region offers: availability zones, instance types and where each is offered.

The figures are moto's data files, which are recorded from AWS: 1,395 instance types with all their properties
and the offerings of each region by zone id.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from ministack.core.responses import get_region
from ministack.services import ec2

from local.emulator.service import ApiError, installed
from local.emulator.wire import answers, matches, page

_RESOURCES = installed("moto") / "ec2" / "resources"

WITHDRAWN: set[tuple[str, str]] = set()
"""(instance type, zone id) pairs that seeds took away."""


@cache
def instance_types() -> dict[str, dict[str, Any]]:
    """Every instance type that the data knows, by name, as DescribeInstanceTypes answers it."""
    types: dict[str, dict[str, Any]] = json.loads(gzip.decompress((_RESOURCES / "instance_types.json.gz").read_bytes()))
    return types


@cache
def recorded(region: str) -> tuple[tuple[str, str], ...]:
    """(instance type, zone id) pairs of a region, as AWS offered them when they were recorded."""
    path = _RESOURCES / "instance_type_offerings" / "availability-zone-id" / f"{region}.json.gz"
    if not path.exists():
        raise ApiError("InvalidParameterValue", f"no instance type offerings are recorded for region {region}")
    return tuple((row["InstanceType"], row["Location"]) for row in json.loads(gzip.decompress(path.read_bytes())))


@cache
def offerings(region: str) -> tuple[tuple[str, str], ...]:
    """(instance type, zone id) pairs of a region, without those that a seed took away."""
    return tuple(pair for pair in recorded(region) if pair not in WITHDRAWN)


def withdraw(instance_type: str, zone_id: str) -> None:
    """Offer an instance type in a zone no longer; raises ApiError where it was not offered."""
    if (instance_type, zone_id) not in recorded(get_region()):
        raise ApiError("InvalidParameterValue", f"{instance_type} is not offered in {zone_id} ({get_region()}) anyway")
    WITHDRAWN.add((instance_type, zone_id))
    offerings.cache_clear()


def _offered_now() -> object:
    """What the answers about instance types depend on besides the request."""
    return get_region(), frozenset(WITHDRAWN)


def zones(region: str) -> dict[str, str]:
    """Zone id by zone name. AWS shuffles the letters by account; here az1 is a, az2 is b and so on."""
    ids = sorted({zone for _name, zone in recorded(region)})
    return {f"{region}{chr(ord('a') + int(re.findall(r'[0-9]+$', zone)[0]) - 1)}": zone for zone in ids}


def zone_name(zone_id: str) -> str | None:
    """The name of a zone of the current region, or None."""
    return next((name for name, known in zones(get_region()).items() if known == zone_id), None)


def offered(instance_type: str, zone_id: str | None = None) -> bool:
    """Whether the current region (or one zone of it) offers an instance type."""
    return any(name == instance_type and zone_id in (None, zone) for name, zone in offerings(get_region()))


def install() -> None:
    """Replace ministack's three zones and twelve instance types (services/ec2.py:3549 and :6100)."""
    ec2._zone_name_for_az_id = zone_name

    @answers("DescribeAvailabilityZones")
    def describe_zones(request: dict[str, Any]) -> dict[str, Any]:
        region = get_region()
        found = [
            {
                "ZoneName": name,
                "ZoneId": zone,
                "State": "available",
                "RegionName": region,
                "GroupName": f"{region}-zg-1",
                "NetworkBorderGroup": region,
                "ZoneType": "availability-zone",
                "OptInStatus": "opt-in-not-required",
            }
            for name, zone in zones(region).items()
        ]
        wanted_names, wanted_ids = request.get("ZoneNames", []), request.get("ZoneIds", [])
        for wanted, key in ((wanted_names, "ZoneName"), (wanted_ids, "ZoneId")):
            unknown = [value for value in wanted if value not in {zone[key] for zone in found}]
            if unknown:
                raise ApiError("InvalidParameterValue", f"Invalid availability zone: [{', '.join(unknown)}]")
        return {
            "AvailabilityZones": [
                zone
                for zone in found
                if (not wanted_names or zone["ZoneName"] in wanted_names)
                and (not wanted_ids or zone["ZoneId"] in wanted_ids)
                and matches(request, zone)
            ]
        }

    @answers("DescribeInstanceTypes", _offered_now)
    def describe_types(request: dict[str, Any]) -> dict[str, Any]:
        names = request.get("InstanceTypes") or sorted({name for name, _zone in offerings(get_region())})
        unknown = [name for name in names if name not in instance_types() or not offered(name)]
        if unknown:
            raise ApiError(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            )
        found = [instance_types()[name] for name in names]
        found = [entry for entry in found if matches(request, entry)]
        return page(request, found, "InstanceTypes")

    @answers("DescribeInstanceTypeOfferings", _offered_now)
    def describe_offerings(request: dict[str, Any]) -> dict[str, Any]:
        kind = request.get("LocationType", "region")
        region = get_region()
        names = {zone: name for name, zone in zones(region).items()}
        places: dict[str, Callable[[str], str]] = {
            "region": lambda _zone: region,
            "availability-zone": names.__getitem__,
            "availability-zone-id": lambda zone: zone,
        }
        place = places.get(kind)
        if place is None:
            raise ApiError("InvalidParameterValue", f"The location type '{kind}' is not supported")
        rows = sorted({(name, place(zone)) for name, zone in offerings(region)})
        found = [{"InstanceType": name, "LocationType": kind, "Location": location} for name, location in rows]
        return page(request, [one for one in found if matches(request, one)], "InstanceTypeOfferings")
