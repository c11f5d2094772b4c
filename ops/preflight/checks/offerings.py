"""Whether the zone offers the instance types. A region may offer a type only in some of its zones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, judged
from settings.rules.items import type_uses


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each instance type of the file."""
    zone = context.environment.network.zone
    roles: dict[str, set[str]] = defaultdict(set)
    for _, use in type_uses(context.environment):
        roles[use.name].add(use.role)
    offered: dict[str, list[str]] = defaultdict(list)
    for item in context.aws.items(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": sorted(roles)}],
    ):
        offered[item["InstanceType"]].append(item["Location"])
    for name, uses in roles.items():
        zones = ", ".join(sorted(offered[name]))
        yield judged(
            "offerings",
            f"{name} ({', '.join(sorted(uses))})",
            "ec2:DescribeInstanceTypeOfferings",
            f"offered in {zones}" if zones else f"not offered in {context.environment.region}",
            f"offered in {zone}",
            ok=zone in offered[name],
            todo=f"use another type, or set network.zone to one of {zones or 'another region'}",
        )
