"""Slurm parameters that ParallelCluster sets itself, and accounting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.model import Environment
from settings.rules.items import Finding

DENIED = {
    *("epilog", "grestypes", "launchparameters", "prolog", "reconfigflags", "resumefailprogram", "resumeprogram"),
    *("resumetimeout", "slurmctldhost", "slurmctldlogfile", "slurmctldparameters", "slurmdlogfile", "slurmuser"),
    *("suspendexcnodes", "suspendprogram", "suspendtime", "taskplugin", "treewidth"),
}
DENIED_WITH_ACCOUNTING = {
    *("accountingstoragetype", "accountingstoragehost", "accountingstorageport", "accountingstorageuser"),
    "jobacctgathertype",
}
INSTEAD = {"suspendtime": "set slurm.scaledown_minutes"}
PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9]*")
MAX_VALUE = 1024
DATABASE_ADDRESS = re.compile(r"[A-Za-z0-9.-]+(:(\d{1,5}))?")
MAX_PORT = 65535


def schedule(environment: Environment) -> Iterator[Finding]:
    """A reaction to bad nodes needs a schedule that finds them."""
    validation = environment.validation
    if validation.schedule == "off" and validation.on_failure != "report":
        key, given = ("validation", "on_failure"), f"{validation.on_failure}, with schedule off"
        advice = "set schedule: nightly, or remove on_failure; trainyard validate drains with --drain"
        yield Finding(key, given, "report, without a schedule", advice)


def settings(environment: Environment) -> Iterator[Finding]:
    """Parameters that ParallelCluster sets itself are refused, whatever their case.

    Source: ParallelCluster 3.16.1, SLURM_SETTINGS_DENY_LIST.
    """
    slurm = environment.cluster.slurm
    denied = DENIED | (DENIED_WITH_ACCOUNTING if slurm.accounting else set())
    seen: dict[str, str] = {}
    for name, value in slurm.settings.items():
        key, lower, text = ("cluster", "slurm", "settings", name), name.lower(), str(value)
        if not PARAMETER.fullmatch(name):
            yield Finding(key, repr(name[:60]), "the name of a slurm.conf parameter: letters and digits")
        elif lower in denied:
            allowed = "a parameter that ParallelCluster does not set itself"
            yield Finding(key, name, allowed, INSTEAD.get(lower, "remove it"))
        elif lower in seen:
            allowed = "each parameter once: slurm.conf ignores the case of names"
            yield Finding(key, f"{name} and {seen[lower]}", allowed)
        seen[lower] = name
        if not text.strip() or len(text) > MAX_VALUE or not text.isprintable():
            yield Finding(key, repr(text[:60]), f"one line of 1 to {MAX_VALUE} printable characters")


def accounting(environment: Environment) -> Iterator[Finding]:
    """The database's address has no scheme and no path, and its secret is in the cluster's region.

    Source: ParallelCluster 3.16.1, DatabaseUriValidator.
    """
    given = environment.cluster.slurm.database
    if given is None:
        return
    key = ("cluster", "slurm", "accounting")
    match = DATABASE_ADDRESS.fullmatch(given.uri)
    if not match or (match[2] and not 0 < int(match[2]) <= MAX_PORT):
        yield Finding((*key, "uri"), given.uri, "host or host:port, without mysql:// and without a path")
    region = given.password_secret_arn.split(":")[3]
    if region != environment.region:
        allowed = f"a secret in the cluster's region, {environment.region}"
        yield Finding((*key, "password_secret_arn"), f"a secret in {region}", allowed)


RULES = (schedule, settings, accounting)
