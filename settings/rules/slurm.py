"""Settings of Slurm that ParallelCluster keeps for itself, and accounting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.model import Environment
from settings.rules.finding import Finding, rule

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
KEY = re.compile(r"[A-Za-z][A-Za-z0-9]*")
MOST_VALUE = 1024


@rule
def settings(environment: Environment) -> Iterator[Finding]:
    """Parameters that ParallelCluster writes itself are refused, in whatever case they are written.

    Source: ParallelCluster 3.16.1, SLURM_SETTINGS_DENY_LIST.
    """
    slurm = environment.cluster.slurm
    denied = DENIED | (DENIED_WITH_ACCOUNTING if slurm.accounting else set())
    seen: dict[str, str] = {}
    for name, value in slurm.settings.items():
        key = ("cluster", "slurm", "settings", name)
        if not KEY.fullmatch(name):
            yield Finding(key, repr(name[:60]), "the name of a parameter of slurm.conf: letters and digits")
        elif name.lower() in denied:
            allowed = "a parameter that ParallelCluster does not set itself"
            yield Finding(key, name, allowed, INSTEAD.get(name.lower(), "take it out"))
        elif name.lower() in seen:
            yield Finding(key, f"{name} beside {seen[name.lower()]}", "each parameter once: slurm.conf knows no case")
        seen[name.lower()] = name
        text = str(value)
        if not text.strip() or len(text) > MOST_VALUE or not text.isprintable():
            yield Finding(key, repr(text[:60]), f"one line of 1 to {MOST_VALUE} printable characters")


@rule
def accounting(environment: Environment) -> Iterator[Finding]:
    """The database's address has no scheme and no path, and its secret lies in the cluster's region.

    Source: ParallelCluster 3.16.1, DatabaseUriValidator.
    """
    given = environment.cluster.slurm.accounting
    if given is None:
        return
    key = ("cluster", "slurm", "accounting")
    match = re.fullmatch(r"[A-Za-z0-9.-]+(:(\d{1,5}))?", given.uri)
    if not match or (match[2] and not 0 < int(match[2]) < 65536):
        yield Finding((*key, "uri"), given.uri, "host or host:port, without mysql:// and without a path")
    parts = given.password_secret_arn.split(":")
    if len(parts) > 3 and parts[3] != environment.region:
        allowed = f"a secret in the cluster's region, {environment.region}"
        yield Finding((*key, "password_secret_arn"), f"a secret in {parts[3] or 'no region'}", allowed)


RULES = (settings, accounting)
