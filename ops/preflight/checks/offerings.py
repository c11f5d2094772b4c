"""What the zone and the region offer: instance types and FSx deployment types.

No API lists the deployment types of a region, so `data/fsx_regions.json` records what AWS's guides say, with the date.
An existing file system of the same type in the account and region counts more than the table.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged
from settings.model.storage import Lustre
from settings.rules.items import type_uses

DATA = Path(__file__).parents[1] / "data" / "fsx_regions.json"
_LUSTRE_TYPE = "PERSISTENT_2"
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


@cache
def table() -> dict[str, Any]:
    """The data file."""
    data: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
    return data


def deployment_types(context: CheckContext) -> Iterator[CheckResult]:
    """Each Lustre file system's type with its throughput and EFA, and the OpenZFS type."""
    for lustre in context.environment.storage.lustre:
        yield _lustre(context, lustre)
    if context.environment.storage.openzfs:
        yield _openzfs(context, context.environment.storage.openzfs.deployment)


def _lustre(context: CheckContext, lustre: Lustre) -> CheckResult:
    wanted = f"{_LUSTRE_TYPE}, {lustre.throughput} MB/s/TiB" + (" with EFA" if lustre.efa else "")
    subject = f"Lustre {lustre.name} in {context.environment.region}"
    for system in context.file_systems:
        has = system.get("LustreConfiguration", {})
        as_fast = has.get("PerUnitStorageThroughput", 0) >= lustre.throughput
        if has.get("DeploymentType") == _LUSTRE_TYPE and as_fast and (has.get("EfaEnabled") or not lustre.efa):
            return CheckResult(subject, _DESCRIBE, "one like this exists here", wanted, Verdict.OK)
    known = table()["lustre"]["regions"].get(context.environment.region)
    if known is None:
        return _missing(subject, "lustre", wanted)
    throughputs = known["throughput"]
    found = f"{_LUSTRE_TYPE}, {', '.join(map(str, throughputs))} MB/s/TiB, {'EFA' if known['efa'] else 'no EFA'}"
    todo = f"set storage.lustre of {lustre.name} to what the region has"
    if not throughputs:
        found, todo = f"no {_LUSTRE_TYPE} here", "choose a region that has it"
    ok = lustre.throughput in throughputs and (known["efa"] or not lustre.efa)
    return judged(subject, _guide("lustre"), found, wanted, ok=ok, todo=_or_update("lustre", todo))


def _openzfs(context: CheckContext, deployment: str) -> CheckResult:
    region, zone = context.environment.region, context.environment.network.zone
    subject = f"OpenZFS {deployment} in {region}"
    if any(s.get("OpenZFSConfiguration", {}).get("DeploymentType") == deployment for s in context.file_systems):
        return CheckResult(subject, _DESCRIBE, "one of the type exists here", deployment, Verdict.OK)
    known = table()["openzfs"]["regions"].get(region)
    if known is None:
        return _missing(subject, "openzfs", deployment)
    found = ", ".join(known)
    if deployment in known and region in table()["openzfs"]["not_every_zone"]:
        found += "; in this region possibly not in every zone, and AWS does not name the zones"
        todo = "nothing, unless FSx refuses the zone: then choose another type or another zone"
        return CheckResult(subject, _guide("openzfs"), found, f"{deployment} in {zone}", Verdict.WARNING, todo)
    todo = _or_update("openzfs", f"set storage.openzfs.deployment to one of {found}")
    return judged(subject, _guide("openzfs"), found, deployment, ok=deployment in known, todo=todo)


def _missing(subject: str, kind: str, wanted: str) -> CheckResult:
    todo = f"look at {table()[kind]['source']} and add the region to ops/preflight/data/{DATA.name}"
    found = "the table does not have the region"
    return CheckResult(subject, _guide(kind), found, wanted, Verdict.UNKNOWN, todo)


def _guide(kind: str) -> str:
    return f'AWS\'s guide, "{table()[kind]["section"]}", read on {table()["read"]} from an undated copy'


def _or_update(kind: str, todo: str) -> str:
    return f"{todo}; if AWS lists it there by now ({table()[kind]['source']}), update ops/preflight/data/{DATA.name}"
