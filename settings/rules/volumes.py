"""Root volumes of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import RootVolume
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import has, queues

IOPS_PER_GIB = 500
MOST_THROUGHPUT_PER_IOPS = 0.25


def _root_volumes(environment: Environment) -> Iterator[tuple[KeyPath, RootVolume]]:
    cluster = environment.cluster
    if has(cluster, "head_node") and has(cluster.head_node, "root_volume"):
        yield ("cluster", "head_node", "root_volume"), cluster.head_node.root_volume
    if has(cluster, "queues"):
        for key, queue in queues(environment):
            if has(queue, "root_volume"):
                yield (*key, "root_volume"), queue.root_volume


@rule_for_each(_root_volumes)
def balance(_: Environment, key: KeyPath, volume: RootVolume) -> Iterator[Finding]:
    """gp3 gives up to 500 IOPS a GiB and up to 0.25 MB/s an IOPS. Source: EBS user guide, "General Purpose SSD"."""
    if volume.iops > volume.size_gib * IOPS_PER_GIB:
        allowed = f"at most {IOPS_PER_GIB} a GiB: {volume.size_gib * IOPS_PER_GIB}"
        yield Finding((*key, "iops"), f"{volume.iops} on {volume.size_gib} GiB", allowed)
    most = int(volume.iops * MOST_THROUGHPUT_PER_IOPS)
    if volume.throughput > most:
        given = f"{volume.throughput} with {volume.iops} IOPS"
        yield Finding((*key, "throughput"), given, f"at most {most}", f"set iops to {volume.throughput * 4} or more")


RULES = (balance,)
