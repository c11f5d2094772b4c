"""Mount points: of Lustre, of OpenZFS volumes, and of the nodes' own disks."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, rule, rule_for_each
from settings.rules.items import has, lustres, overlap, queues, volumes

RESERVED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin"),
    *("/srv", "/sys", "/tmp", "/usr", "/var"),  # noqa: S108 - names, not files
)
SEALED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/opt/amazon", "/opt/aws", "/opt/intel", "/opt/parallelcluster", "/opt/slurm"),  # noqa: S108
)
MOST_EXISTING = 20


def shared(environment: Environment) -> Iterator[tuple[KeyPath, str]]:
    """Each shared mount point, where it is readable."""
    storage = environment.storage
    if has(storage, "lustre"):
        for key, lustre in lustres(environment):
            if has(lustre, "mount"):
                yield (*key, "mount"), lustre.mount
    if has(storage, "openzfs") and storage.openzfs and has(storage.openzfs, "volumes"):
        for key, volume in volumes(environment):
            if has(volume, "mount"):
                yield (*key, "mount"), volume.mount


def _system(key: KeyPath, mount: str) -> Iterator[Finding]:
    inside = next((folder for folder in SEALED if (mount + "/").startswith(folder + "/")), None)
    if mount in RESERVED or inside:
        allowed = "a folder that the operating system and ParallelCluster do not use, for example /fsx"
        yield Finding(key, mount, allowed)


@rule_for_each(shared)
def not_over_the_system(_: Environment, key: KeyPath, mount: str) -> Iterator[Finding]:
    """A mount would hide the system's files. Source: ParallelCluster 3.16.1,
    SharedStorageMountDirValidator, whose exact names are widened here by what lies below those that nobody
    should mount into.
    """
    yield from _system(key, mount)


@rule
def apart(environment: Environment) -> Iterator[Finding]:
    """No shared mount is, or lies in, another. Source: ParallelCluster 3.16.1, OverlappingMountDirValidator."""
    found = list(shared(environment))
    for index, (key, mount) in enumerate(found):
        for before, other in found[:index]:
            if overlap(mount, other):
                given = f"{mount}, which overlaps with {other} of {key_text(before)}"
                yield Finding(key, given, "mounts of which none is, or lies in, another")
                break


@rule_for_each(queues)
def scratch(environment: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """The local disks are mounted on the same nodes as the shared file systems. Source: as for `apart`."""
    yield from _system((*key, "scratch"), queue.scratch)
    for other_key, mount in shared(environment):
        if overlap(queue.scratch, mount):
            yield Finding(
                (*key, "scratch"),
                f"{queue.scratch}, which overlaps with {mount} of {key_text(other_key)}",
                "a folder apart from the shared mounts",
            )


@rule
def count(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster mounts at most 20 existing FSx file systems. Source: its MAX_EXISTING_STORAGE_COUNT."""
    found = list(shared(environment))
    if len(found) > MOST_EXISTING:
        given = f"{len(found)} Lustre file systems and OpenZFS volumes"
        yield Finding(found[MOST_EXISTING][0], given, f"at most {MOST_EXISTING} together")


RULES = (not_over_the_system, apart, scratch, count)
