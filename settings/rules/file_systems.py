"""FSx for Lustre with its S3 associations, FSx for OpenZFS, and mount points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from settings.faults import KeyPath, key_text
from settings.instances import instance_types
from settings.model import Environment
from settings.model.storage import Association, Lustre, OpenZfs
from settings.regions import FSX_REGIONS, fsx_regions
from settings.rules import items
from settings.rules.items import Finding, Items, clashes, for_each, overlap

LUSTRE_MB_S = {"PERSISTENT_2": (125, 250, 500, 1000), "PERSISTENT_1": (50, 100, 200), "SCRATCH_2": (200,)}
"""By deployment type, in MB/s per TiB.

Sources: FSx API reference, CreateFileSystemLustreConfiguration, PerUnitStorageThroughput; for SCRATCH_2 the baseline in
the FSx for Lustre guide, "Deployment options".
"""
SMALLEST_GIB = 1200
STEP_GIB = 2400
EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
NO_EFA_CLIENT = ("rhel8", "rocky8")
MAX_EFA_CONNECTIONS = 1024
MAX_ASSOCIATIONS = 8

OPENZFS_MB_S = {
    "1": (64, 128, 256, 512, 1024, 2048, 3072, 4096),
    "2": (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240),
}
"""By generation, the last character of the deployment type."""

WINDOW_MINUTES = 30
DAY_MINUTES = 24 * 60

RESERVED = ("/media", "/mnt", "/opt", "/srv")
"""Folders that may not be mount points, while folders inside them may be."""
SEALED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/opt/amazon", "/opt/aws", "/opt/intel", "/opt/parallelcluster", "/opt/slurm"),  # noqa: S108 - names
)
MAX_EXISTING = 20


@for_each(items.lustres)
def lustre_capacity(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """SSD comes in 1200 GiB and multiples of 2400 GiB; with EFA in steps that depend on throughput.

    Sources: FSx API reference, CreateFileSystem, StorageCapacity; for EFA the FSx for Lustre guide, "Increasing
    storage capacity".
    """
    given = lustre.capacity_gib
    if lustre.efa and lustre.throughput in EFA_STEP_GIB:
        step = EFA_STEP_GIB[lustre.throughput]
        if given % step:
            allowed = f"a multiple of {step} GiB with efa at {lustre.throughput} MB/s per TiB"
            other = next((tier for tier, size in EFA_STEP_GIB.items() if given % size == 0), None)
            advice = f"{_nearest(given, step, step)}, or " + (f"use {other} MB/s per TiB" if other else "efa: false")
            yield Finding((*key, "capacity_gib"), str(given), allowed, advice)
    elif given != SMALLEST_GIB and given % STEP_GIB:
        allowed = f"{SMALLEST_GIB}, or a multiple of {STEP_GIB} (GiB)"
        yield Finding((*key, "capacity_gib"), str(given), allowed, _nearest(given, SMALLEST_GIB, STEP_GIB))


def _nearest(given: int, smallest: int, step: int) -> str:
    below, above = given // step * step or smallest, (given // step + 1) * step
    return f"use {below} or {above}" if below != above else f"use {above}"


@for_each(items.lustres)
def lustre_options(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """A file system that is linked to S3 has no backups and at most 8 links; EFA needs a client that has it.

    Deployment types differ in throughput; only PERSISTENT_2 has EFA and metadata IOPS, and a scratch file system has no
    backups. Sources: FSx API reference, CreateBackup, CreateDataRepositoryAssociation and
    CreateFileSystemLustreConfiguration; FSx for Lustre guide, "Using EFA-enabled file systems" (Amazon Linux 2023,
    Ubuntu 22.04 or later, RHEL 9.5 or later).
    """
    if lustre.backups.days and lustre.associations:
        given = f"{lustre.backups.days}, on a file system with associations"
        allowed = "0: FSx makes no backups of a Lustre file system that is linked to S3"
        yield Finding((*key, "backups", "days"), given, allowed, "rely on the export to S3, or remove the associations")
    if len(lustre.associations) > MAX_ASSOCIATIONS:
        given, allowed = f"{len(lustre.associations)} associations", f"at most {MAX_ASSOCIATIONS} on one file system"
        yield Finding((*key, "associations"), given, allowed, "link a parent folder to S3, or add another file system")
    persistent_2 = lustre.deployment == "PERSISTENT_2"
    for name, value in (("efa", lustre.efa), ("metadata_iops", lustre.metadata_iops)):
        if value and not persistent_2:
            yield Finding(
                (*key, name), f"{_yaml(value)}, with {lustre.deployment}", f"only with PERSISTENT_2: remove {name}"
            )
    if lustre.backups.days and lustre.deployment == "SCRATCH_2":
        given, allowed = f"{lustre.backups.days}, with SCRATCH_2", "0: FSx makes no backups of a scratch file system"
        yield Finding((*key, "backups", "days"), given, allowed)
    tiers = LUSTRE_MB_S[lustre.deployment]
    if lustre.throughput not in tiers:
        allowed = f"{_one_of(tiers)} (MB/s per TiB) with {lustre.deployment}"
        yield Finding((*key, "throughput"), str(lustre.throughput), allowed)
    os = environment.cluster.os
    if lustre.efa and os in NO_EFA_CLIENT:
        yield Finding((*key, "efa"), f"true, with os {os}", "alinux2023, ubuntu2204, ubuntu2404, rhel9 or rocky9")


@for_each(items.lustres)
def efa_connections(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """All nodes with EFA together have at most 1024 EFA connections: one for each interface that Lustre uses.

    Nodes use 8 interfaces if they have as many, else at most 2 (cluster_assets/steps/lustre-efa.sh). Source: FSx for
    Lustre guide, "Configuring EFA clients".
    """
    computes = [compute for queue in environment.cluster.queues for compute in queue.compute if compute.efa]
    used = sum(compute.max * max(map(_lustre_interfaces, compute.instance_types)) for compute in computes)
    if lustre.efa and used > MAX_EFA_CONNECTIONS:
        given, allowed = f"true, with {used} EFA connections of all nodes", f"at most {MAX_EFA_CONNECTIONS}"
        yield Finding((*key, "efa"), given, allowed, "lower max of the compute resources with EFA, or remove efa")


def _lustre_interfaces(instance_type: str) -> int:
    facts = instance_types().get(instance_type)
    found = facts.efa_interfaces if facts else 0
    return 8 if found >= 8 else min(found, 2)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_of(values: Iterable[object]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


@for_each(items.lustres)
def lustre_region(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """The region has the deployment type with its throughput and EFA, as far as AWS's guide is recorded for it."""
    region = environment.region
    known = fsx_regions()["lustre"]["regions"].get(region)
    if known is None or lustre.deployment != "PERSISTENT_2":
        return
    if not known["throughput"]:
        advice = f"write deployment: PERSISTENT_1 with throughput: {_one_of(LUSTRE_MB_S['PERSISTENT_1'])}"
        allowed = f"PERSISTENT_1 or SCRATCH_2 in {region}"
        yield Finding((*key, "deployment"), f"PERSISTENT_2, in {region}", allowed, _or_update("lustre", advice))
        return
    if lustre.throughput in LUSTRE_MB_S["PERSISTENT_2"] and lustre.throughput not in known["throughput"]:
        given, allowed = (
            f"{lustre.throughput}, in {region}",
            f"{_one_of(known['throughput'])} with PERSISTENT_2 in {region}",
        )
        yield Finding((*key, "throughput"), given, allowed, _or_update("lustre", f"use {max(known['throughput'])}"))
    if lustre.efa and not known["efa"]:
        yield Finding((*key, "efa"), f"true, in {region}", f"false in {region}", _or_update("lustre", "remove efa"))


@for_each(items.openzfs)
def openzfs_region(environment: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """The region has the deployment type, as far as AWS's guide is recorded for it."""
    known = fsx_regions()["openzfs"]["regions"].get(environment.region)
    if known is not None and system.deployment not in known:
        given, allowed = f"{system.deployment}, in {environment.region}", f"{_one_of(known)} in {environment.region}"
        best = best_openzfs(known)
        advice = f"write deployment: {best} with throughput: {_one_of(OPENZFS_MB_S[best[-1]])}"
        yield Finding((*key, "deployment"), given, allowed, _or_update("openzfs", advice))


def best_openzfs(deployments: Iterable[str]) -> str:
    """Of these deployment types: the newest with a standby server, or the newest; their names sort like this."""
    return max(deployments)  # SINGLE_AZ_1, SINGLE_AZ_2, SINGLE_AZ_HA_1, SINGLE_AZ_HA_2


def _or_update(kind: str, advice: str) -> str:
    table = fsx_regions()
    source = f"{table[kind]['source']}, read on {table['read']}"
    return f"{advice}; if AWS lists more by now ({source}), update settings/data/{FSX_REGIONS.name}"


@for_each(items.lustres)
def paths(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Folders of associations may not overlap. Source: FSx API reference, DataRepositoryAssociation, FileSystemPath."""
    found = items.listed((*key, "associations"), lustre.associations)
    for at, item, first, before in clashes(found, lambda one, other: overlap(one[1].path, other[1].path)):
        given = f"{item.path}, which overlaps with {before.path} of {key_text(first)}"
        yield Finding((*at, "path"), given, "folders that do not contain each other")


Linked = tuple[KeyPath, Association]


def _one_file_system(one: Linked, other: Linked) -> bool:
    return one[0][:-1] == other[0][:-1]


def _same_objects(one: Association, other: Association) -> bool:
    return one.bucket == other.bucket and (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix))


def prefixes(environment: Environment) -> Iterator[Finding]:
    """Prefixes of one bucket may not overlap: FSx would import and export the same objects twice.

    Two file systems may not export to the same prefix: they would overwrite each other's objects.
    Source: FSx API reference, CreateDataRepositoryAssociation ("a unique S3 bucket or prefix").
    """

    def clash(one: Linked, other: Linked) -> bool:
        both_export = bool(one[1].export_events and other[1].export_events)
        return (both_export or _one_file_system(one, other)) and _same_objects(one[1], other[1])

    for key, item, first, before in clashes(items.associations(environment), clash):
        given = f"{item.prefix!r}, which overlaps with {before.prefix!r} of {key_text(first)}"
        allowed = f"prefixes of the bucket {item.bucket} of which none begins with another"
        if not _one_file_system((key, item), (first, before)):
            given = f"{item.prefix!r}, to which {key_text(first)} exports too"
            allowed = "only one file system that exports to a prefix"
        yield Finding((*key, "prefix"), given, allowed)


@for_each(items.associations)
def events(_: Environment, key: KeyPath, item: Association) -> Iterator[Finding]:
    """At least one event: without any, nothing is copied automatically. Each event is listed once."""
    for name, given in (("import_events", item.import_events), ("export_events", item.export_events)):
        if len(set(given)) != len(given):
            yield Finding((*key, name), ", ".join(given), "each of new, changed, deleted at most once")
    if not item.import_events and not item.export_events:
        allowed = "at least one of import_events and export_events"
        yield Finding((*key, "export_events"), "no event in either direction", allowed)


@for_each(items.openzfs)
def openzfs_limits(_: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """Each deployment type has its own steps of throughput, and a quota above the capacity has no effect.

    Source: FSx API reference, CreateFileSystemOpenZFSConfiguration, ThroughputCapacity and DeploymentType. (Quotas of
    several volumes may add up to more than the capacity.)
    """
    steps = OPENZFS_MB_S[system.deployment[-1]]
    if system.throughput not in steps:
        allowed = f"one of {', '.join(map(str, steps))} (MB/s) with {system.deployment}"
        nearest = min(steps, key=lambda step: abs(step - system.throughput))
        yield Finding((*key, "throughput"), str(system.throughput), allowed, f"use {nearest}")
    for index, volume in enumerate(system.volumes):
        if volume.quota_gib is not None and volume.quota_gib > system.capacity_gib:
            allowed = f"at most the file system's capacity_gib, {system.capacity_gib}"
            yield Finding((*key, "volumes", index, "quota_gib"), str(volume.quota_gib), allowed)


def _file_systems(environment: Environment) -> Items[Lustre | OpenZfs]:
    yield from items.lustres(environment)
    yield from items.openzfs(environment)


@for_each(_file_systems)
def windows(_: Environment, key: KeyPath, system: Lustre | OpenZfs) -> Iterator[Finding]:
    """The daily backup and the weekly maintenance last 30 minutes each and may not overlap on any day.

    Sources: FSx for Windows File Server guide, "Update a file system using the AWS CLI", for the same two fields; FSx
    for Lustre guide, "Maintenance windows" (30 minutes).
    """
    minutes = abs(_minute_of_day(system.backups.window) - _minute_of_day(system.maintenance_window))
    if system.backups.days and min(minutes, DAY_MINUTES - minutes) < WINDOW_MINUTES:
        given = f"{system.backups.window}, inside the maintenance window {system.maintenance_window}"
        allowed = f"a time at least {WINDOW_MINUTES} minutes before or after the maintenance window, UTC"
        yield Finding((*key, "backups", "window"), given, allowed)


def _minute_of_day(time: str) -> int:
    hours, minutes = time.split(":")[-2:]
    return int(hours) * 60 + int(minutes)


def _scratch(environment: Environment) -> Items[str]:
    for key, queue in items.queues(environment):
        yield (*key, "scratch"), queue.scratch


def not_over_the_system(environment: Environment) -> Iterator[Finding]:
    """Neither a mount nor the nodes' own disks hide files of the system.

    Source: ParallelCluster 3.16.1, SharedStorageMountDirValidator, which refuses the exact names only.
    """
    for key, mount in (*items.mounts(environment), *_scratch(environment)):
        if mount in RESERVED or any((mount + "/").startswith(folder + "/") for folder in SEALED):
            allowed = "a folder that the operating system and ParallelCluster do not use, for example /fsx"
            yield Finding(key, mount, allowed)


def apart(environment: Environment) -> Iterator[Finding]:
    """Shared mounts and the nodes' own disks do not contain each other; several queues may have the same disks.

    Source: ParallelCluster 3.16.1, OverlappingMountDirValidator.
    """

    def clash(one: tuple[KeyPath, str], other: tuple[KeyPath, str]) -> bool:
        return overlap(one[1], other[1]) and other[0][-1] == "mount"

    for key, mount, before, other in clashes((*items.mounts(environment), *_scratch(environment)), clash):
        given = f"{mount}, which overlaps with {other} of {key_text(before)}"
        yield Finding(key, given, "mount points that do not contain each other")


def existing(environment: Environment) -> Iterator[Finding]:
    """An existing file system is in the cluster's VPC, so that VPC exists too; each is mounted once.

    Source: ParallelCluster 3.16.1, ExistingFsxNetworkingValidator.
    """
    for key, system in items.existing(environment):
        if environment.network.existing is None:
            allowed = "only with network.existing: the file system is in the cluster's VPC"
            yield Finding((*key, "id"), f"{system.id}, with a new VPC", allowed, "name the file system's VPC there")
    for key, system, first, _ in clashes(items.existing(environment), lambda one, other: one[1].id == other[1].id):
        yield Finding((*key, "id"), f"{system.id}, the id of {key_text(first)} too", "each file system once")


def count(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster mounts at most 20 existing FSx file systems. Source: its MAX_EXISTING_STORAGE_COUNT."""
    found = list(items.mounts(environment))
    if len(found) > MAX_EXISTING:
        given = f"{len(found)} Lustre file systems and OpenZFS volumes"
        yield Finding(found[MAX_EXISTING][0], given, f"at most {MAX_EXISTING} together")


RULES = (
    *(lustre_capacity, lustre_options, efa_connections, lustre_region, paths, prefixes, events),
    *(openzfs_limits, openzfs_region, windows, not_over_the_system, apart, existing, count),
)
