"""Deployment types of FSx, which not every region has.

No API lists them, so `data/fsx_regions.json` holds what AWS's guides say, with its date. A file system of the type that
stands in the region, whoever's in the account, says more than the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from settings.model.storage import Lustre

CHECK = "regions"
DATA = Path(__file__).parents[1] / "data" / "fsx_regions.json"
_LUSTRE_TYPE = "PERSISTENT_2"


@cache
def table() -> dict[str, Any]:
    """The data file."""
    data: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
    return data


def check(question: Question) -> Iterator[Line]:
    """Each Lustre file system's type with its throughput and EFA, and the OpenZFS type."""
    for lustre in question.environment.storage.lustre:
        yield _lustre(question, lustre)
    if question.environment.storage.openzfs:
        yield _openzfs(question, question.environment.storage.openzfs.deployment)


def _lustre(question: Question, lustre: Lustre) -> Line:
    efa = " with EFA" if lustre.efa else ""
    wanted = f"{_LUSTRE_TYPE}, {lustre.throughput} MB/s/TiB{efa}"
    subject = f"Lustre {lustre.name} in {question.environment.region}"
    if _stands(question, lustre):
        return Line(CHECK, subject, "fsx:DescribeFileSystems", "one of the kind stands here", wanted, Verdict.OK)
    known = table()["lustre"]["regions"].get(question.environment.region)
    if known is None:
        return _missing(subject, "lustre", wanted)
    if not known["throughput"]:
        todo = _look("lustre", "take a region that has it")
        return Line(CHECK, subject, _asked("lustre"), f"no {_LUSTRE_TYPE} here", wanted, Verdict.FAULT, todo)
    found = f"{_LUSTRE_TYPE}, {', '.join(map(str, known['throughput']))} MB/s/TiB"
    found += ", EFA" if known["efa"] else ", no EFA"
    right = lustre.throughput in known["throughput"] and (known["efa"] or not lustre.efa)
    todo = "" if right else _look("lustre", f"set storage.lustre of {lustre.name} to what the region has")
    return Line(CHECK, subject, _asked("lustre"), found, wanted, Verdict.OK if right else Verdict.FAULT, todo)


def _stands(question: Question, wanted: Lustre) -> bool:
    for system in question.file_systems:
        lustre = system.get("LustreConfiguration", {})
        if (
            lustre.get("DeploymentType") == _LUSTRE_TYPE
            and lustre.get("PerUnitStorageThroughput", 0) >= wanted.throughput
            and (lustre.get("EfaEnabled", False) or not wanted.efa)
        ):
            return True
    return False


def _openzfs(question: Question, deployment: str) -> Line:
    region = question.environment.region
    subject = f"OpenZFS {deployment} in {region}"
    zone = f" in {question.environment.network.zone}"
    if any(s.get("OpenZFSConfiguration", {}).get("DeploymentType") == deployment for s in question.file_systems):
        return Line(CHECK, subject, "fsx:DescribeFileSystems", "one of the type stands here", deployment, Verdict.OK)
    known = table()["openzfs"]["regions"].get(region)
    if known is None:
        return _missing(subject, "openzfs", deployment)
    found = ", ".join(known)
    if deployment not in known:
        todo = _look("openzfs", f"set storage.openzfs.deployment to one of {found}")
        return Line(CHECK, subject, _asked("openzfs"), found, deployment, Verdict.FAULT, todo)
    if region in table()["openzfs"]["not_every_zone"]:
        return Line(
            CHECK,
            subject,
            _asked("openzfs"),
            f"{found}; in this region perhaps not in every zone, and AWS names none",
            deployment + zone,
            Verdict.WARNING,
            "nothing, unless FSx refuses the zone: take another type or another zone then",
        )
    return Line(CHECK, subject, _asked("openzfs"), found, deployment, Verdict.OK)


def _missing(subject: str, kind: str, wanted: str) -> Line:
    return Line(
        CHECK,
        subject,
        _asked(kind),
        "the table has no such region",
        wanted,
        Verdict.UNKNOWN,
        f"look at {table()[kind]['source']} and add the region to preflight/data/{DATA.name}",
    )


def _asked(kind: str) -> str:
    return f'AWS\'s guide, "{table()[kind]["section"]}", read on {table()["read"]} from an undated copy'


def _look(kind: str, otherwise: str) -> str:
    source = table()[kind]["source"]
    return f"{otherwise}; if AWS has it there by now ({source}), say so in preflight/data/{DATA.name}"
