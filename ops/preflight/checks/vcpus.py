"""Quotas on vCPUs of running instances, by family, on demand and spot.

Instances of a capacity block do not count (EC2 user guide, "Capacity Blocks for ML"). Capacity reservations count,
used or not, while they are assessing, scheduled, pending, active or delayed (EC2 user guide, "On-Demand Capacity
Reservations"); an instance that runs in one counts once. Both read on 2026-11-21.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from botocore.exceptions import ClientError

from ops.preflight.checks import quotas
from ops.preflight.context import CheckContext, Quota, Source
from ops.preflight.families import family_of
from ops.preflight.results import CheckResult, Verdict, note
from settings.instances import instance_types

_COUNTING = ("assessing", "scheduled", "pending", "active", "delayed")
_TYPES_PER_FILTER = 100
_FAMILIES = "ops/preflight/families.py"


@dataclass(frozen=True)
class _Use:
    """Instances of one type that count, and for the environment's own the reason."""

    instance_type: str
    count: int
    spot: bool = False
    reason: str = ""

    @property
    def quota(self) -> Quota | None:
        family = family_of(self.instance_type)
        return (family.spot if self.spot else family.on_demand) if family else None


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each quota that the environment's instances count towards."""
    reservations = {source.id: _members(context, source) for source in context.sources}
    ours = [use for use in _ours(context, reservations) if use.count]
    named = {name for members in reservations.values() for name in members}
    others = list(_others(context, named))
    vcpus = _vcpus(context, {use.instance_type for use in (*ours, *others)})
    taken: Counter[Quota | None] = Counter()
    for use in others:
        taken[use.quota] += use.count * vcpus.get(use.instance_type, 0)
    needs: dict[Quota, list[_Use]] = defaultdict(list)
    unknown: set[str] = set()
    undocumented: set[str] = set()
    for use in ours:
        if family_of(use.instance_type) is None or use.instance_type not in vcpus:
            unknown.add(use.instance_type)
        elif use.quota is None:
            undocumented.add(use.instance_type)
        else:
            needs[use.quota].append(use)
    for quota, uses in needs.items():
        reasons = " + ".join(f"{use.count} x {use.instance_type} ({use.reason})" for use in uses)
        need = sum(use.count * vcpus[use.instance_type] for use in uses)
        asked = "ec2:DescribeInstances"
        yield quotas.check(context, quota, need, taken[quota], "vCPUs", asked=asked, reasons=reasons)
    if any(queue.capacity.type == "capacity-block" for queue in context.environment.cluster.queues):
        wanted = "instances of a capacity block count towards no quota on running instances"
        yield note("vCPUs of capacity blocks", "not counted", wanted)
    wanted = "a quota that allows the environment's instances"
    console = "look in the console, under Service Quotas, Amazon EC2, for a quota that counts this type"
    if unknown:
        subject, found = f"vCPUs of {', '.join(sorted(unknown))}", "the quota of this type is unknown"
        todo = f"{console}, and add its family to {_FAMILIES}"
        yield CheckResult(subject, _FAMILIES, found, wanted, Verdict.UNKNOWN, todo)
    if undocumented:
        subject, found = f"vCPUs of {', '.join(sorted(undocumented))}, spot", "AWS documents no spot quota"
        yield CheckResult(subject, _FAMILIES, found, wanted, Verdict.WARNING, console)


def _ours(context: CheckContext, reservations: dict[str, Collection[str]]) -> Iterator[_Use]:
    cluster = context.environment.cluster
    yield _Use(cluster.head_node.instance_type, 1, reason="head")
    if cluster.login_nodes:
        yield _Use(cluster.login_nodes.instance_type, cluster.login_nodes.count, reason="login")
    if context.environment.observability.prometheus:
        yield _Use(context.environment.observability.instance_type, 1, reason="monitoring")
    for queue in cluster.queues:
        if queue.capacity.type in ("capacity-block", "odcr"):
            continue
        for compute in queue.compute:
            # All types of a compute resource have as many vCPUs, and any of their families may have to run all nodes.
            families = {family_of(name): name for name in reversed(compute.instance_types)}
            for name in reversed(families.values()):
                yield _Use(name, compute.max, queue.capacity.type == "spot", queue.name)
    for source in context.sources:
        if source.queues[0].capacity.type == "capacity-block":
            continue
        records = [context.reservations[name] for name in reservations[source.id] if name in context.reservations]
        # What counts is the reservations' size or the queues' maximum. EC2 also lists cancelled reservations.
        counting = [record for record in records if _owned(context, record) and record["State"] in _COUNTING]
        held = sum(int(record["TotalInstanceCount"]) for record in counting)
        instance_type = source.queues[0].compute[0].instance_types[0]
        yield _Use(instance_type, max(source.nodes, held), reason=source.id.rpartition("/")[2])


def _others(context: CheckContext, named: Collection[str]) -> Iterator[_Use]:
    """What else counts in the account: running instances, and unused reservations."""
    for instance in context.instances:
        lifecycle = instance.get("InstanceLifecycle")
        reserved = instance.get("CapacityReservationId") in named
        if not (context.is_ours(instance) or lifecycle == "capacity-block" or reserved):
            yield _Use(instance["InstanceType"], 1, lifecycle == "spot")
    for name, record in context.reservations.items():
        block = record.get("ReservationType") == "capacity-block"
        if _owned(context, record) and not block and record["State"] in _COUNTING and name not in named:
            yield _Use(record["InstanceType"], int(record["AvailableInstanceCount"]))


def _owned(context: CheckContext, record: dict[str, object]) -> bool:
    return record.get("OwnerId") == context.environment.account


def _members(context: CheckContext, source: Source) -> Collection[str]:
    try:
        return context.members(source)
    except ClientError:
        return ()  # the check on capacity reports a missing group


def _vcpus(context: CheckContext, types: Collection[str]) -> dict[str, int]:
    """Default vCPUs of instance types, which quotas count: from EC2, else from settings/data, else left out."""
    names = sorted(types)
    vcpus = {name: instance_types()[name].vcpus for name in names if name in instance_types()}
    for start in range(0, len(names), _TYPES_PER_FILTER):
        # A filter, because EC2 refuses a call that names a type that the region does not have.
        filters = [{"Name": "instance-type", "Values": names[start : start + _TYPES_PER_FILTER]}]
        for found in context.aws.items("ec2", "describe_instance_types", "InstanceTypes", Filters=filters):
            vcpus[found["InstanceType"]] = int(found["VCpuInfo"]["DefaultVCpus"])
    return vcpus
