"""What the zone and the region offer: instance types and FSx deployment types.

No API lists the deployment types of a region. settings/data/fsx_regions.json records what AWS's guides say; the rules
refuse a file that contradicts it. Here remains what it cannot say: unknown regions, and zones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged
from settings.model.storage import Lustre
from settings.regions import FSX_REGIONS, fsx_regions
from settings.rules.items import type_uses

_DESCRIBE = "fsx:DescribeFileSystems"


def instance_types(context: CheckContext) -> Iterator[CheckResult]:
    """Each instance type of the file. A region may offer a type only in some of its zones."""
    zone = context.environment.network.zone
    roles: dict[str, set[str]] = defaultdict(set)
    for _, use in type_uses(context.environment):
        roles[use.name].add(use.role)
    offered: dict[str, list[str]] = defaultdict(list)
    by = {"LocationType": "availability-zone-id", "Filters": [{"Name": "instance-type", "Values": sorted(roles)}]}
    for item in context.aws.items("ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", **by):
        offered[item["InstanceType"]].append(item["Location"])
    for name, uses in roles.items():
        zones = ", ".join(sorted(offered[name]))
        subject = f"{name} ({', '.join(sorted(uses))})"
        found = f"offered in {zones}" if zones else f"not offered in {context.environment.region}"
        todo = f"use another type, or set network.zone to one of {zones or 'another region'}"
        call = "ec2:DescribeInstanceTypeOfferings"
        yield judged(subject, call, found, f"offered in {zone}", ok=zone in offered[name], todo=todo)


def deployment_types(context: CheckContext) -> Iterator[CheckResult]:
    """Each Lustre file system's type with its throughput and EFA, and the OpenZFS type."""
    for lustre in context.environment.storage.lustre:
        yield _lustre(context, lustre)
    if context.environment.storage.openzfs:
        yield _openzfs(context, context.environment.storage.openzfs.deployment)


def _lustre(context: CheckContext, lustre: Lustre) -> CheckResult:
    wanted = f"{lustre.deployment}, {lustre.throughput} MB/s/TiB" + (" with EFA" if lustre.efa else "")
    subject = f"Lustre {lustre.name} in {context.environment.region}"
    for system in context.file_systems:
        has = system.get("LustreConfiguration", {})
        as_fast = has.get("PerUnitStorageThroughput", 0) >= lustre.throughput or lustre.deployment == "SCRATCH_2"
        if has.get("DeploymentType") == lustre.deployment and as_fast and (has.get("EfaEnabled") or not lustre.efa):
            return CheckResult(subject, _DESCRIBE, "one like this exists here", wanted, Verdict.OK)
    if lustre.deployment == "PERSISTENT_2" and context.environment.region not in fsx_regions()["lustre"]["regions"]:
        return _missing(subject, "lustre", wanted)
    return CheckResult(subject, _guide("lustre"), "the region has it", wanted, Verdict.OK)


def _openzfs(context: CheckContext, deployment: str) -> CheckResult:
    region, zone, known = context.environment.region, context.environment.network.zone, fsx_regions()["openzfs"]
    subject = f"OpenZFS {deployment} in {region}"
    if any(s.get("OpenZFSConfiguration", {}).get("DeploymentType") == deployment for s in context.file_systems):
        return CheckResult(subject, _DESCRIBE, "one of the type exists here", deployment, Verdict.OK)
    if region not in known["regions"]:
        return _missing(subject, "openzfs", deployment)
    found = "the region has it"
    if region in known["not_every_zone"]:
        found += ", but possibly not in every zone, and AWS does not name the zones"
        todo = "nothing, unless FSx refuses the zone: then choose another type or another zone"
        return CheckResult(subject, _guide("openzfs"), found, f"{deployment} in {zone}", Verdict.WARNING, todo)
    return CheckResult(subject, _guide("openzfs"), found, deployment, Verdict.OK)


def _missing(subject: str, kind: str, wanted: str) -> CheckResult:
    todo = f"look at {fsx_regions()[kind]['source']} and add the region to settings/data/{FSX_REGIONS.name}"
    found = "the table does not have the region"
    return CheckResult(subject, _guide(kind), found, wanted, Verdict.UNKNOWN, todo)


def _guide(kind: str) -> str:
    table = fsx_regions()
    return f'AWS\'s guide, "{table[kind]["section"]}", read on {table["read"]} from an undated copy'
