"""Instance types that the zone offers. A whole region may have a type that one zone of it lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from settings.rules.items import type_uses

CHECK = "offerings"


def check(question: Question) -> Iterator[Line]:
    """Each instance type of the file, with what it is for."""
    zone = question.environment.network.zone
    roles: dict[str, set[str]] = defaultdict(set)
    for _, use in type_uses(question.environment):
        roles[use.name].add(use.role)
    offered: dict[str, list[str]] = defaultdict(list)
    for item in question.aws.items(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": sorted(roles)}],
    ):
        offered[item["InstanceType"]].append(item["Location"])
    for name, uses in roles.items():
        zones = sorted(offered[name])
        right = zone in zones
        yield Line(
            CHECK,
            f"{name} ({', '.join(sorted(uses))})",
            "ec2:DescribeInstanceTypeOfferings",
            f"offered in {', '.join(zones)}" if zones else f"not offered in {question.environment.region}",
            f"offered in {zone}",
            Verdict.OK if right else Verdict.FAULT,
            "" if right else f"take another type, or set network.zone to one of {', '.join(zones) or 'another region'}",
        )
