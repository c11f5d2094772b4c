"""FSx deployment types, which not every region has.

No API lists them, so `data/fsx_regions.json` records what AWS's guides say, with the date. An existing file system of
the same type in the account and region counts more than the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged
from settings.model.storage import Lustre

CHECK = "regions"
DATA = Path(__file__).parents[1] / "data" / "fsx_regions.json"
_LUSTRE_TYPE = "PERSISTENT_2"
_DESCRIBE = "fsx:DescribeFileSystems"


@cache
def table() -> dict[str, Any]:
    """The data file."""
    data: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
    return data


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each Lustre file system's type with its throughput and EFA, and the OpenZFS type."""
    for lustre in context.environment.storage.lustre:
        yield _lustre(context, lustre)
    if context.environment.storage.openzfs:
        yield _openzfs(context, context.environment.storage.openzfs.deployment)


def _lustre(context: CheckContext, lustre: Lustre) -> CheckResult:
    wanted = f"{_LUSTRE_TYPE}, {lustre.throughput} MB/s/TiB" + (" with EFA" if lustre.efa else "")
    subject = f"Lustre {lustre.name} in {context.environment.region}"
    if any(_like(system.get("LustreConfiguration", {}), lustre) for system in context.file_systems):
        return CheckResult(CHECK, subject, _DESCRIBE, "one like this exists here", wanted, Verdict.OK)
    known = table()["lustre"]["regions"].get(context.environment.region)
    if known is None:
        return _missing(subject, "lustre", wanted)
    has = known["throughput"]
    found = f"{_LUSTRE_TYPE}, {', '.join(map(str, has))} MB/s/TiB, {'EFA' if known['efa'] else 'no EFA'}"
    todo = f"set storage.lustre of {lustre.name} to what the region has"
    if not has:
        found, todo = f"no {_LUSTRE_TYPE} here", "choose a region that has it"
    ok = lustre.throughput in has and (known["efa"] or not lustre.efa)
    return judged(CHECK, subject, _guide("lustre"), found, wanted, ok=ok, todo=_or_update("lustre", todo))


def _like(system: dict[str, Any], wanted: Lustre) -> bool:
    return (
        system.get("DeploymentType") == _LUSTRE_TYPE
        and system.get("PerUnitStorageThroughput", 0) >= wanted.throughput
        and (system.get("EfaEnabled", False) or not wanted.efa)
    )


def _openzfs(context: CheckContext, deployment: str) -> CheckResult:
    region, zone = context.environment.region, context.environment.network.zone
    subject = f"OpenZFS {deployment} in {region}"
    if any(s.get("OpenZFSConfiguration", {}).get("DeploymentType") == deployment for s in context.file_systems):
        return CheckResult(CHECK, subject, _DESCRIBE, "one of the type exists here", deployment, Verdict.OK)
    known = table()["openzfs"]["regions"].get(region)
    if known is None:
        return _missing(subject, "openzfs", deployment)
    found = ", ".join(known)
    if deployment in known and region in table()["openzfs"]["not_every_zone"]:
        found += "; in this region possibly not in every zone, and AWS does not name the zones"
        todo = "nothing, unless FSx refuses the zone: then choose another type or another zone"
        return CheckResult(CHECK, subject, _guide("openzfs"), found, f"{deployment} in {zone}", Verdict.WARNING, todo)
    todo = _or_update("openzfs", f"set storage.openzfs.deployment to one of {found}")
    return judged(CHECK, subject, _guide("openzfs"), found, deployment, ok=deployment in known, todo=todo)


def _missing(subject: str, kind: str, wanted: str) -> CheckResult:
    todo = f"look at {table()[kind]['source']} and add the region to ops/preflight/data/{DATA.name}"
    found = "the table does not have the region"
    return CheckResult(CHECK, subject, _guide(kind), found, wanted, Verdict.UNKNOWN, todo)


def _guide(kind: str) -> str:
    return f'AWS\'s guide, "{table()[kind]["section"]}", read on {table()["read"]} from an undated copy'


def _or_update(kind: str, todo: str) -> str:
    return f"{todo}; if AWS lists it there by now ({table()[kind]['source']}), update ops/preflight/data/{DATA.name}"
