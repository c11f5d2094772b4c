"""Observability: keys that the mode uses, the services of the region, the size of the monitoring host."""

from __future__ import annotations

from collections.abc import Iterator

from settings.instances import instance_types
from settings.model import Environment
from settings.model.observability import MODES
from settings.regions import monitoring_regions
from settings.rules.items import Finding, computes

UNUSED = {
    "off": {"retention_days", "volume_gib", "instance_type", "notify", "runbooks"},
    "cloudwatch": {"retention_days", "volume_gib", "instance_type"},
    "managed": {"volume_gib"},
}
"""Keys that a mode does not use. CloudWatch keeps metrics for 15 months; an agent keeps two hours only."""
XEN = frozenset(
    (
        *("c1", "c3", "c4", "d2", "g3", "g3s", "h1", "i2", "i3", "m1", "m2", "m3", "m4"),
        *("p2", "p3", "r3", "r4", "t1", "t2", "x1", "x1e"),
    )
)
"""Families without NVMe names for EBS volumes. Source: `Hypervisor` of DescribeInstanceTypes, as moto 5.2.5 records it
(ec2/resources/instance_types.json.gz); for g3, p2 and p3 the EC2 user guide, instances built on Nitro."""
HOST_MIB, NODE_MIB = 1024, 48
"""Memory of the monitoring host: the system with Grafana, and 6,000 series of 8 KiB for each node."""


def used(environment: Environment) -> Iterator[Finding]:
    """The mode uses every key that the file has: a forgotten mode would notify nobody."""
    settings = environment.observability
    for name in sorted(settings.model_fields_set & UNUSED.get(settings.mode, set())):
        given = f"a value that the mode {settings.mode} does not use"
        others = [mode for mode in MODES if name not in UNUSED.get(mode, ())]
        yield Finding(
            ("observability", name), given, f"only with mode {' or '.join(others)}", "set mode, or remove the key"
        )


def region(environment: Environment) -> Iterator[Finding]:
    """The region has the services of mode managed. Source: settings/data/monitoring_regions.json."""
    if environment.observability.mode != "managed":
        return
    for service, regions in monitoring_regions().items():
        if environment.region not in regions:
            yield Finding(
                ("observability", "mode"),
                f"managed, in {environment.region}",
                f"self-hosted or cloudwatch: {environment.region} does not have {service}",
                f"{service} is in {', '.join(regions)}",
            )


def memory(environment: Environment) -> Iterator[Finding]:
    """The monitoring host has memory for the series of all nodes."""
    settings = environment.observability
    facts = instance_types().get(settings.instance_type)
    nodes = sum(compute.max for _, compute in computes(environment))
    need = HOST_MIB + NODE_MIB * nodes
    if settings.mode == "self-hosted" and facts and facts.memory_mib < need:
        given = f"{settings.instance_type} with {facts.memory_mib / 1024:g} GiB"
        yield Finding(
            ("observability", "instance_type"), given, f"a type with {need / 1024:.1f} GiB or more for {nodes} nodes"
        )


def hypervisor(environment: Environment) -> Iterator[Finding]:
    """The monitoring host finds its volume by the name that Nitro gives it."""
    settings = environment.observability
    if settings.mode == "self-hosted" and settings.instance_type.partition(".")[0] in XEN:
        allowed = "a type built on Nitro, for example t3.medium: the host finds its volume by its NVMe name"
        yield Finding(("observability", "instance_type"), settings.instance_type, allowed)


RULES = (used, region, memory, hypervisor)
