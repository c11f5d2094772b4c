"""Capacity reservations and capacity blocks: existing, active, of the right kind, in the right zone, and free."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext, Source
from ops.preflight.reservations import NOT_STARTED, is_block, size
from ops.preflight.results import CheckResult, Verdict, judged, note

SOON = timedelta(days=1)
_CALL = "ec2:DescribeCapacityReservations"
_GROUP_CALL = "resource-groups:ListGroupResources"
_PLATFORM = "Linux/UNIX"
Attribute = tuple[str, str, Collection[str], str]
"""Name, value, allowed values and advice."""


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each reservation and group, with the needs of all queues that use it together."""
    named = [queue for source in context.sources for queue in source.queues]
    for queue in context.environment.cluster.queues:
        if queue not in named:
            found = f"{queue.capacity.type}: no reservation"
            yield note(f"queue {queue.name}", found, "no guarantee: EC2 decides at each launch")
    for source in context.sources:
        yield from (_group if source.is_group else _reservation)(context, source)


def _reservation(context: CheckContext, source: Source) -> Iterator[CheckResult]:
    subject = f"{source.id} of {_queues(source)}"
    record = context.reservations.get(source.id)
    if record is None:
        found = f"no such reservation in account {context.environment.account}, {context.environment.region}"
        wanted = "a reservation that this account owns or that is shared with it"
        todo = "correct the queue's capacity.reservation, or have the reservation shared with the account"
        yield judged(subject, _CALL, found, wanted, ok=False, todo=todo)
        return
    yield _state(context, subject, record)
    for what, found, allowed, todo in _attributes(context, source, record):
        ok = {found} == set(allowed)
        yield judged(f"{subject}: {what}", _CALL, found, ", ".join(sorted(allowed)), ok=ok, todo=todo)
    yield _room(context, subject, source, [record])


def _group(context: CheckContext, source: Source) -> Iterator[CheckResult]:
    subject = f"group {source.id.rpartition('/')[2]} of {_queues(source)}"
    try:
        names = context.members(source)
    except ClientError as error:
        if code_of(error) not in ("NotFoundException", "BadRequestException"):
            raise
        found = f"no such group: {error.response['Error'].get('Message', '')}"
        todo = "correct the queue's capacity.reservation_group"
        yield judged(subject, _GROUP_CALL, found, "a resource group of reservations", ok=False, todo=todo)
        return
    records = [context.reservations[name] for name in names if name in context.reservations]
    fitting = [
        record
        for record in records
        if record["State"] == "active"
        and all(found in allowed for _, found, allowed, _ in _attributes(context, source, record))
    ]
    rest = len(records) - len(fitting)
    verdict = Verdict.OK if fitting and not rest else Verdict.WARNING if fitting else Verdict.FAULT
    found = f"{len(fitting)} reservations that fit" + (f", {rest} that do not" if rest else "")
    wanted = f"active ones of {', '.join(sorted(_types(source)))} in {context.environment.network.zone}"
    todo = "" if verdict is Verdict.OK else "check state, kind, type, zone, tenancy and platform of the others"
    yield CheckResult(subject, f"{_GROUP_CALL}, {_CALL}", found, wanted, verdict, todo)
    if fitting:
        yield _room(context, subject, source, fitting)


def _state(context: CheckContext, subject: str, record: dict[str, Any]) -> CheckResult:
    found = state = str(record["State"])
    verdict, todo = Verdict.OK, ""
    starts, ends = record.get("StartDate"), record.get("EndDate")
    if ends is not None:
        found += f" until {ends:%Y-%m-%d %H:%M} UTC"
    if _starts_later(record):
        found = f"{state}: starts {starts:%Y-%m-%d %H:%M} UTC" if starts else state
        verdict = Verdict.WARNING
        todo = "a deployment now creates the cluster, but its nodes can only start when the block starts"
    elif state != "active":
        verdict = Verdict.FAULT
        todo = "wait until it is active" if state in NOT_STARTED else "buy or create another reservation"
    elif ends is not None and ends <= context.now:
        verdict, todo = Verdict.FAULT, "it has ended: buy or create another reservation"
    elif ends is not None and ends - context.now < SOON:
        verdict, todo = Verdict.WARNING, "it ends within a day, and AWS then terminates its instances: extend it"
    return CheckResult(f"{subject}: state", _CALL, found, "active", verdict, todo)


def _attributes(context: CheckContext, source: Source, record: dict[str, Any]) -> Iterator[Attribute]:
    kinds = {"capacity-block" if queue.capacity.type == "capacity-block" else "odcr" for queue in source.queues}
    kind = "capacity-block" if is_block(record) else "odcr"
    zone = context.environment.network.zone
    other_zone = "set network.zone to the reservation's, or use a reservation in the environment's zone"
    platform = record.get("InstancePlatform", _PLATFORM)
    yield "kind", kind, kinds, "correct the queue's capacity.type"
    yield "instance type", record["InstanceType"], _types(source), "use the reservation's type in the queue"
    yield "zone", record.get("AvailabilityZoneId", "?"), [zone], other_zone
    yield "tenancy", record.get("Tenancy", "default"), ["default"], "create a reservation with default tenancy"
    yield "platform", platform, [_PLATFORM], f"create a reservation for {_PLATFORM}"


def _room(context: CheckContext, subject: str, source: Source, records: list[dict[str, Any]]) -> CheckResult:
    """Whether enough instances are free, used by the environment's own nodes, or free when the block starts."""
    names = {record["CapacityReservationId"] for record in records}
    total = sum(size(record) for record in records)
    later = sum(size(record) for record in records if _starts_later(record))
    free = later + sum(int(record["AvailableInstanceCount"]) for record in records if not _starts_later(record))
    ours = 0
    if free < source.nodes:
        used = [item for item in context.instances if item.get("CapacityReservationId") in names]
        ours = sum(context.is_ours(item) for item in used)
    found = f"{free} of {total} free" + (f", {ours} used by this cluster" if ours else "")
    found += " when the block starts" if later else ""
    todo = "terminate other instances in it"
    if total < source.nodes:
        todo = f"enlarge the reservation to {source.nodes}, or lower the queue's max"
    wanted = f"{source.nodes}, the queue's max"
    return judged(f"{subject}: instances", _CALL, found, wanted, ok=free + ours >= source.nodes, todo=todo)


def _starts_later(record: dict[str, Any]) -> bool:
    return is_block(record) and record["State"] in NOT_STARTED


def _types(source: Source) -> set[str]:
    return {name for queue in source.queues for compute in queue.compute for name in compute.instance_types}


def _queues(source: Source) -> str:
    return f"queue{'s' if len(source.queues) > 1 else ''} {', '.join(queue.name for queue in source.queues)}"
