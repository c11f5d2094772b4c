"""Slurm parameters that ParallelCluster sets itself, and accounting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.regions import other_zone
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
OF_OWN_DATABASE = {"zone", "subnet_id", "version", "max_acu", "backup_days", "snapshot"}
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
    """An existing database's address has no scheme and no path, and its secret is in the cluster's region.

    Source: ParallelCluster 3.16.1, DatabaseUriValidator; its schema requires user and secret.
    """
    given = environment.cluster.slurm.database
    if given is None:
        return
    key = ("cluster", "slurm", "accounting")
    for name in sorted(given.model_fields_set & OF_OWN_DATABASE):
        allowed = f"no value together with uri: {name} is for a database that Trainyard creates"
        yield Finding((*key, name), str(getattr(given, name)), allowed, "remove the key, or uri")
    for name in ("user", "password_secret_arn"):
        if getattr(given, name) is None:
            yield Finding((*key, name), "nothing, with uri", "a value", f"add the key {name}, or remove uri")
    if given.uri is None or given.password_secret_arn is None:
        return
    match = DATABASE_ADDRESS.fullmatch(given.uri)
    if not match or (match[2] and not 0 < int(match[2]) <= MAX_PORT):
        yield Finding((*key, "uri"), given.uri, "host or host:port, without mysql:// and without a path")
    region = given.password_secret_arn.split(":")[3]
    if region != environment.region:
        allowed = f"a secret in the cluster's region, {environment.region}"
        yield Finding((*key, "password_secret_arn"), f"a secret in {region}", allowed)


def own_database(environment: Environment) -> Iterator[Finding]:
    """The environment's database has subnets in two zones. Source: Aurora user guide, "Working with a DB subnet group".

    Only an existing database has a user, a secret and a name of its own.
    """
    given, network = environment.cluster.slurm.accounting, environment.network
    if given is None or not given.own:
        return
    key: KeyPath = ("cluster", "slurm", "accounting")
    for name in sorted(given.model_fields_set & {"user", "password_secret_arn", "database"}):
        allowed = f"no value without uri: {name} is for an existing database"
        yield Finding((*key, name), str(getattr(given, name)), allowed, "remove the key, or add uri")
    if network.existing and given.zone:
        advice = "remove the key, and name a subnet in that zone with subnet_id"
        yield Finding((*key, "zone"), given.zone, "no value in an existing network", advice)
    elif given.zone and (given.zone == network.zone or given.zone.split("-")[0] != network.zone.split("-")[0]):
        allowed = f"another zone of {environment.region} than network.zone"
        yield Finding((*key, "zone"), given.zone, allowed, f"use {other_zone(network.zone)}")
    if network.existing and given.subnet_id is None:
        advice = "add the id of a private subnet in another zone, or use an existing database with uri"
        yield Finding((*key, "subnet_id"), "nothing, in an existing network", "a second subnet", advice)
    elif network.existing and given.subnet_id in (
        network.existing.private_subnet_id,
        network.existing.public_subnet_id,
    ):
        allowed = "a private subnet in another zone, not one of network.existing"
        yield Finding((*key, "subnet_id"), str(given.subnet_id), allowed)
    elif given.subnet_id and not network.existing:
        advice = "remove the key; zone chooses the zone of the subnet that is made"
        yield Finding((*key, "subnet_id"), given.subnet_id, "no value without network.existing", advice)


RULES = (schedule, settings, accounting, own_database)
