"""Quotas on vCPUs of running instances, by family, on demand and on spot.

Instances of a capacity block do not count (EC2 user guide, "Capacity Blocks for ML"). Capacity reservations count,
used or not, while they are assessing, scheduled, pending, active or delayed (EC2 user guide, "On-Demand Capacity
Reservations"); an instance that runs in one counts once. Both read on 2026-11-21.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.families import family_of
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from ops.preflight.quotas import Quota, raise_it

CHECK = "quotas"
_COUNTING = ("assessing", "scheduled", "pending", "active", "delayed")
_NO_QUOTA = "none that AWS documents"


@dataclass
class _Need:
    """vCPUs under one quota: of the environment with its reasons, and of everything else in the account."""

    ours: int = 0
    others: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, count: int, name: str, vcpus: int, where: str = "") -> None:
        self.ours += count * vcpus
        self.reasons.append(f"{count} x {name}{where}")


def check(question: Question) -> Iterator[Line]:
    """Each quota that the environment's instances count towards."""
    cluster = question.environment.cluster
    sources = _sources(question)
    needs: dict[Quota, _Need] = defaultdict(_Need)
    without: dict[str, list[str]] = defaultdict(list)
    types = {cluster.head_node.instance_type}
    types |= {cluster.login_nodes.instance_type} if cluster.login_nodes else set()
    types |= {name for queue in cluster.queues for compute in queue.compute for name in compute.instance_types}
    vcpus = question.vcpus(types)

    def need(count: int, name: str, *, spot: bool = False, where: str = "") -> None:
        if not count:
            return
        family = family_of(name)
        quota = (family.spot if spot else family.on_demand) if family else None
        if quota is None or name not in vcpus:
            without["spot" if spot else "on demand"].append(name)
            return
        needs[quota].add(count, name, vcpus[name], where)

    need(1, cluster.head_node.instance_type, where=" (head)")
    if cluster.login_nodes:
        need(cluster.login_nodes.count, cluster.login_nodes.instance_type, where=" (login)")
    for queue in cluster.queues:
        if queue.capacity.type in ("capacity-block", "odcr"):
            continue
        for compute in queue.compute:
            # All types of a compute resource have as many vCPUs; each family of them must be able to take all nodes.
            for name in _one_of_each_family(compute.instance_types):
                need(compute.max, name, spot=queue.capacity.type == "spot", where=f" ({queue.name})")
    for source in sources:
        need(source.count(question), source.instance_type, where=f" ({source.name})")
    _others(question, needs, {name for source in sources for name in source.reservations})
    for quota, demand in needs.items():
        yield _line(question, quota, demand)
    if any(queue.capacity.type == "capacity-block" for queue in cluster.queues):
        yield Line(
            CHECK,
            "vCPUs of capacity blocks",
            "nothing",
            "not counted",
            "instances of a capacity block count towards no quota on running instances",
            Verdict.NOTE,
        )
    for purchase, names in without.items():
        yield Line(
            CHECK,
            f"vCPUs of {', '.join(sorted(set(names)))}, {purchase}",
            "servicequotas:ListServiceQuotas",
            _NO_QUOTA,
            "a quota that holds the environment's instances",
            Verdict.WARNING,
            "look in the console, under Service Quotas, Amazon EC2, for one that counts this type",
        )


def _one_of_each_family(names: tuple[str, ...]) -> list[str]:
    first: dict[object, str] = {}
    for name in names:
        first.setdefault(family_of(name), name)
    return list(first.values())


@dataclass
class _Source:
    """What queues take instances from by its id or its ARN: one reservation, or those of a group."""

    name: str
    instance_type: str
    reservations: tuple[str, ...]
    wanted: int = 0
    block: bool = False

    def count(self, question: Question) -> int:
        """Instances that count: as many as the reservations hold, or as the queues want; of a block none."""
        if self.block:
            return 0
        account = question.environment.account
        held = sum(
            int(record["TotalInstanceCount"])
            for record in question.reservations
            if record["CapacityReservationId"] in self.reservations and record.get("OwnerId") == account
        )
        return max(self.wanted, held)


def _sources(question: Question) -> list[_Source]:
    found: dict[str, _Source] = {}
    for queue in question.environment.cluster.queues:
        capacity = queue.capacity
        name = capacity.reservation or capacity.reservation_group
        if name is None:
            continue
        if name not in found:
            members = (name,) if capacity.reservation else _members(question, name)
            block = capacity.type == "capacity-block"
            found[name] = _Source(name.rpartition("/")[2], queue.compute[0].instance_types[0], members, block=block)
        found[name].wanted += sum(compute.max for compute in queue.compute)
    return list(found.values())


def _members(question: Question, arn: str) -> tuple[str, ...]:
    try:
        return question.members(arn)
    except ClientError:
        return ()  # a group that is not there is said by the check on capacity


def _others(question: Question, needs: dict[Quota, _Need], named: set[str]) -> None:
    """Add what else counts in the account: instances that run, and reservations that lie idle."""
    counted: list[tuple[str, int, bool]] = []
    for instance in question.instances:
        if question.is_ours(instance) or _of_a_block(instance) or instance.get("CapacityReservationId") in named:
            continue
        counted.append((instance["InstanceType"], 1, instance.get("InstanceLifecycle") == "spot"))
    for record in question.reservations:
        own = record.get("OwnerId") == question.environment.account
        block = record.get("ReservationType") == "capacity-block"
        if own and not block and record["State"] in _COUNTING and record["CapacityReservationId"] not in named:
            counted.append((record["InstanceType"], int(record["AvailableInstanceCount"]), False))
    vcpus = question.vcpus(name for name, _, _ in counted)
    for name, count, spot in counted:
        family = family_of(name)
        quota = (family.spot if spot else family.on_demand) if family else None
        if quota in needs and quota is not None:
            needs[quota].others += count * vcpus.get(name, 0)


def _of_a_block(instance: dict[str, Any]) -> bool:
    return instance.get("InstanceLifecycle") == "capacity-block"


def _line(question: Question, quota: Quota, need: _Need) -> Line:
    value = question.quotas.value(quota)
    total = need.ours + need.others
    reasons = " + ".join(need.reasons)
    wanted = f"{total} vCPUs: {need.ours} for {reasons}" + (f", {need.others} for what else counts" * bool(need.others))
    if value is None:
        return Line(
            CHECK,
            f"{quota.name} ({quota.code or 'by name'})",
            "servicequotas:ListServiceQuotas",
            "Service Quotas lists no such quota",
            wanted,
            Verdict.UNKNOWN,
            "look for it in the console, under Service Quotas, Amazon EC2",
        )
    enough = value.amount >= total
    return Line(
        CHECK,
        f"{quota.name} ({value.code})",
        "servicequotas:ListServiceQuotas, ec2:DescribeInstances",
        f"{value.amount:g} vCPUs" + (", the default" if value.default else ""),
        wanted,
        Verdict.OK if enough else Verdict.FAULT,
        "" if enough else raise_it(value, quota, total, question.environment.region),
    )
