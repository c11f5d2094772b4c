"""Mount points of Lustre, of OpenZFS volumes and of the nodes' own disks."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, for_each
from settings.rules.items import mounts, overlap, queues

RESERVED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin"),
    *("/srv", "/sys", "/tmp", "/usr", "/var"),  # noqa: S108 - names, not files
)
"""Folders that may not be mount points; folders inside them may be, unless they are inside one of SEALED."""
SEALED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/opt/amazon", "/opt/aws", "/opt/intel", "/opt/parallelcluster", "/opt/slurm"),  # noqa: S108
)
MAX_EXISTING = 20


def _system(key: KeyPath, mount: str) -> Iterator[Finding]:
    if mount in RESERVED or any((mount + "/").startswith(folder + "/") for folder in SEALED):
        yield Finding(key, mount, "a folder that the operating system and ParallelCluster do not use, for example /fsx")


@for_each(mounts)
def not_over_the_system(_: Environment, key: KeyPath, mount: str) -> Iterator[Finding]:
    """A mount must not hide files of the system.

    Source: ParallelCluster 3.16.1, SharedStorageMountDirValidator, which refuses the exact names only.
    """
    yield from _system(key, mount)


def apart(environment: Environment) -> Iterator[Finding]:
    """Shared mounts do not contain each other. Source: ParallelCluster 3.16.1, OverlappingMountDirValidator."""
    found = list(mounts(environment))
    for index, (key, mount) in enumerate(found):
        for before, other in found[:index]:
            if overlap(mount, other):
                given = f"{mount}, which overlaps with {other} of {key_text(before)}"
                yield Finding(key, given, "mounts that do not contain each other")
                break


@for_each(queues)
def scratch(environment: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """The nodes' own disks follow the rules of `not_over_the_system` and `apart` too."""
    at = (*key, "scratch")
    yield from _system(at, queue.scratch)
    for other_key, mount in mounts(environment):
        if overlap(queue.scratch, mount):
            given = f"{queue.scratch}, which overlaps with {mount} of {key_text(other_key)}"
            yield Finding(at, given, "a folder that does not overlap with a shared mount")


def count(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster mounts at most 20 existing FSx file systems. Source: its MAX_EXISTING_STORAGE_COUNT."""
    found = list(mounts(environment))
    if len(found) > MAX_EXISTING:
        given = f"{len(found)} Lustre file systems and OpenZFS volumes"
        yield Finding(found[MAX_EXISTING][0], given, f"at most {MAX_EXISTING} together")


RULES = (not_over_the_system, apart, scratch, count)
