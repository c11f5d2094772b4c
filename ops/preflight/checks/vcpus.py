"""Quotas on vCPUs of running instances, by family, on demand and spot.

Instances of a capacity block do not count (EC2 user guide, "Capacity Blocks for ML"). Capacity reservations count,
used or not, while they are assessing, scheduled, pending, active or delayed (EC2 user guide, "On-Demand Capacity
Reservations"); an instance that runs in one counts once. Both read on 2026-11-21.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from ops.preflight.context import CheckContext
from ops.preflight.families import Family, family_of
from ops.preflight.quotas import Quota
from ops.preflight.results import CheckResult, Verdict, note

CHECK = "quotas"
_COUNTING = ("assessing", "scheduled", "pending", "active", "delayed")
_CALLS = "ec2:DescribeInstances"


@dataclass(frozen=True)
class _Group:
    """Instances of one type that the environment launches, and why."""

    instance_type: str
    count: int
    reason: str
    spot: bool = False


@dataclass
class _Need:
    """vCPUs under one quota: of the environment with the reasons, and of everything else in the account."""

    ours: int = 0
    others: int = 0
    reasons: list[str] = field(default_factory=list)


@dataclass
class _Source:
    """What queues take instances from: one reservation, or the reservations of a group."""

    name: str
    instance_type: str
    reservations: tuple[str, ...]
    block: bool
    wanted: int = 0

    def count(self, context: CheckContext) -> int:
        """Instances that count: the reservations' size or the queues' maximum; for a capacity block none."""
        if self.block:
            return 0
        held = sum(
            int(record["TotalInstanceCount"])
            for record in context.reservations
            if record["CapacityReservationId"] in self.reservations
            and record.get("OwnerId") == context.environment.account
        )
        return max(self.wanted, held)


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each quota that the environment's instances count towards."""
    cluster = context.environment.cluster
    sources = _sources(context)
    groups = [group for group in _groups(context, sources) if group.count]
    vcpus = context.vcpus(group.instance_type for group in groups)
    needs: dict[Quota, _Need] = defaultdict(_Need)
    unknown: set[str] = set()
    undocumented: set[str] = set()
    for group in groups:
        family = family_of(group.instance_type)
        quota = _quota(family, group.spot)
        if family is None or group.instance_type not in vcpus:
            unknown.add(group.instance_type)
        elif quota is None:
            undocumented.add(group.instance_type)
        else:
            needs[quota].ours += group.count * vcpus[group.instance_type]
            needs[quota].reasons.append(f"{group.count} x {group.instance_type} ({group.reason})")
    _add_others(context, needs, {name for source in sources for name in source.reservations})
    for quota, need in needs.items():
        why = f"{need.ours} for {' + '.join(need.reasons)}" + (f", {need.others} of others" if need.others else "")
        total, region = need.ours + need.others, context.environment.region
        yield context.quotas.check(quota, total, "vCPUs", why, asked=_CALLS, region=region)
    if any(queue.capacity.type == "capacity-block" for queue in cluster.queues):
        wanted = "instances of a capacity block count towards no quota on running instances"
        yield note(CHECK, "vCPUs of capacity blocks", "not counted", wanted)
    wanted = "a quota that allows the environment's instances"
    console = "look in the console, under Service Quotas, Amazon EC2, for a quota that counts this type"
    if unknown:
        found = "the quota of this type is unknown"
        todo = f"{console}, and add its family to ops/preflight/families.py"
        yield CheckResult(CHECK, _subject(unknown), "ops/preflight/families.py", found, wanted, Verdict.UNKNOWN, todo)
    if undocumented:
        found = "AWS documents no spot quota"
        subject = f"{_subject(undocumented)}, spot"
        yield CheckResult(CHECK, subject, "ops/preflight/families.py", found, wanted, Verdict.WARNING, console)


def _subject(names: set[str]) -> str:
    return f"vCPUs of {', '.join(sorted(names))}"


def _quota(family: Family | None, spot: bool) -> Quota | None:
    return (family.spot if spot else family.on_demand) if family else None


def _groups(context: CheckContext, sources: list[_Source]) -> Iterator[_Group]:
    cluster = context.environment.cluster
    yield _Group(cluster.head_node.instance_type, 1, "head")
    if cluster.login_nodes:
        yield _Group(cluster.login_nodes.instance_type, cluster.login_nodes.count, "login")
    for queue in cluster.queues:
        if queue.capacity.type in ("capacity-block", "odcr"):
            continue
        for compute in queue.compute:
            # All types of a compute resource have as many vCPUs, and any of their families may have to run all nodes.
            first = {family_of(name): name for name in reversed(compute.instance_types)}
            for name in compute.instance_types:
                if first[family_of(name)] == name:
                    yield _Group(name, compute.max, queue.name, queue.capacity.type == "spot")
    for source in sources:
        yield _Group(source.instance_type, source.count(context), source.name)


def _sources(context: CheckContext) -> list[_Source]:
    found: dict[str, _Source] = {}
    for queue in context.environment.cluster.queues:
        capacity = queue.capacity
        name = capacity.reservation or capacity.reservation_group
        if name is None:
            continue
        if name not in found:
            members = (name,) if capacity.reservation else _members(context, name)
            block = capacity.type == "capacity-block"
            found[name] = _Source(name.rpartition("/")[2], queue.compute[0].instance_types[0], members, block)
        found[name].wanted += sum(compute.max for compute in queue.compute)
    return list(found.values())


def _members(context: CheckContext, arn: str) -> tuple[str, ...]:
    try:
        return context.members(arn)
    except ClientError:
        return ()  # the check on capacity reports a missing group


def _add_others(context: CheckContext, needs: dict[Quota, _Need], named: set[str]) -> None:
    """Add what else counts in the account: running instances, and unused reservations."""
    counted: list[tuple[str, int, bool]] = []
    for instance in context.instances:
        lifecycle = instance.get("InstanceLifecycle")
        reserved = instance.get("CapacityReservationId") in named
        if not (context.is_ours(instance) or lifecycle == "capacity-block" or reserved):
            counted.append((instance["InstanceType"], 1, lifecycle == "spot"))
    for record in context.reservations:
        own = record.get("OwnerId") == context.environment.account
        block = record.get("ReservationType") == "capacity-block"
        if own and not block and record["State"] in _COUNTING and record["CapacityReservationId"] not in named:
            counted.append((record["InstanceType"], int(record["AvailableInstanceCount"]), False))
    vcpus = context.vcpus(name for name, _, _ in counted)
    for name, count, spot in counted:
        quota = _quota(family_of(name), spot)
        if quota is not None and quota in needs:
            needs[quota].others += count * vcpus.get(name, 0)
