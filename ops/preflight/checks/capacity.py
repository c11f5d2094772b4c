"""Capacity reservations and capacity blocks: existing, active, of the right kind, in the right zone, and free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, judged, note
from settings.model.cluster import Queue

CHECK = "capacity"
SOON = timedelta(days=1)
_CALL = "ec2:DescribeCapacityReservations"
_GROUP_CALL = "resource-groups:ListGroupResources"
_PLATFORM = "Linux/UNIX"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each reservation, with the needs of all queues that use it together."""
    by_reservation: dict[str, list[Queue]] = defaultdict(list)
    for queue in context.environment.cluster.queues:
        capacity = queue.capacity
        if capacity.reservation_group:
            yield from _group(context, queue, capacity.reservation_group)
        elif capacity.reservation:
            by_reservation[capacity.reservation].append(queue)
        else:
            found = f"{capacity.type}: no reservation"
            yield note(CHECK, f"queue {queue.name}", found, "no guarantee: EC2 decides at each launch")
    for name, queues in by_reservation.items():
        record = _record(context, name)
        subject = f"{name} of {_queues(queues)}"
        if record is None:
            found = f"no such reservation in account {context.environment.account}, {context.environment.region}"
            wanted = "a reservation that this account owns or that is shared with it"
            todo = "correct the queue's capacity.reservation, or have the reservation shared with the account"
            yield judged(CHECK, subject, _CALL, found, wanted, ok=False, todo=todo)
            continue
        yield _state(context, subject, record)
        yield from _attributes(context, subject, record, queues)
        yield _room(context, subject, [record], sum(_nodes(queue) for queue in queues))


def _record(context: CheckContext, name: str) -> dict[str, Any] | None:
    try:
        found = context.aws.call("ec2", "describe_capacity_reservations", CapacityReservationIds=[name])
    except ClientError as error:
        if code_of(error).startswith("InvalidCapacityReservationId"):
            return None
        raise
    return next(iter(found["CapacityReservations"]), None)


def _state(context: CheckContext, subject: str, record: dict[str, Any]) -> CheckResult:
    state = str(record["State"])
    found, verdict, todo = state, Verdict.OK, ""
    starts, ends = _when(record.get("StartDate")), _when(record.get("EndDate"))
    if ends is not None:
        found += f" until {ends:%Y-%m-%d %H:%M} UTC"
    if state == "scheduled" and record.get("ReservationType") == "capacity-block":
        found = f"scheduled: starts {starts:%Y-%m-%d %H:%M} UTC" if starts else "scheduled"
        verdict = Verdict.WARNING
        todo = "a deployment now creates the cluster, but its nodes can only start when the block starts"
    elif state != "active":
        verdict = Verdict.FAULT
        wait = state in ("pending", "scheduled", "assessing")
        todo = "wait until it is active" if wait else "buy or create another reservation"
    elif ends is not None and ends <= context.now:
        verdict, todo = Verdict.FAULT, "it has ended: buy or create another reservation"
    elif ends is not None and ends - context.now < SOON:
        verdict, todo = Verdict.WARNING, "it ends within a day, and AWS then terminates its instances: extend it"
    return CheckResult(CHECK, f"{subject}: state", _CALL, found, "active", verdict, todo)


def _attributes(
    context: CheckContext, subject: str, record: dict[str, Any], queues: list[Queue]
) -> Iterator[CheckResult]:
    kinds = {"capacity-block" if queue.capacity.type == "capacity-block" else "odcr" for queue in queues}
    kind = "capacity-block" if record.get("ReservationType") == "capacity-block" else "odcr"
    types = sorted({name for queue in queues for compute in queue.compute for name in compute.instance_types})
    for what, found, wanted, todo in (
        ("kind", kind, sorted(kinds), "correct the queue's capacity.type"),
        ("instance type", record["InstanceType"], types, "use the reservation's type in the queue"),
        (
            "zone",
            record.get("AvailabilityZoneId") or record.get("AvailabilityZone", "?"),
            [context.environment.network.zone],
            "set network.zone to the reservation's, or use a reservation in the environment's zone",
        ),
        ("tenancy", record.get("Tenancy", "default"), ["default"], "create a reservation with default tenancy"),
        ("platform", record.get("InstancePlatform", _PLATFORM), [_PLATFORM], f"create a reservation for {_PLATFORM}"),
    ):
        ok = wanted == [found]
        yield judged(CHECK, f"{subject}: {what}", _CALL, str(found), ", ".join(wanted), ok=ok, todo=todo)


def _room(context: CheckContext, subject: str, records: list[dict[str, Any]], nodes: int) -> CheckResult:
    """Whether enough instances are free or used by the environment's own nodes."""
    names = {record["CapacityReservationId"] for record in records}
    total = sum(int(record["TotalInstanceCount"]) for record in records)
    free = sum(int(record["AvailableInstanceCount"]) for record in records)
    ours = 0
    if free < nodes:
        used = [item for item in context.instances if item.get("CapacityReservationId") in names]
        ours = sum(context.is_ours(item) for item in used)
    found = f"{free} of {total} free" + (f", {ours} used by this cluster" if ours else "")
    todo = "terminate other instances in it"
    if total < nodes:
        todo = f"enlarge the reservation to {nodes}, or lower the queue's max"
    wanted = f"{nodes}, the queue's max"
    return judged(CHECK, f"{subject}: instances", _CALL, found, wanted, ok=free + ours >= nodes, todo=todo)


def _group(context: CheckContext, queue: Queue, arn: str) -> Iterator[CheckResult]:
    subject = f"group {arn.rpartition('/')[2]} of {_queues([queue])}"
    try:
        names = context.members(arn)
    except ClientError as error:
        if code_of(error) not in ("NotFoundException", "BadRequestException"):
            raise
        found = f"no such group: {error.response['Error'].get('Message', '')}"
        todo = "correct the queue's capacity.reservation_group"
        yield judged(CHECK, subject, _GROUP_CALL, found, "a resource group of reservations", ok=False, todo=todo)
        return
    records = [record for name in names if (record := _record(context, name)) is not None]
    types = {name for compute in queue.compute for name in compute.instance_types}
    zone = context.environment.network.zone
    fitting = [
        record
        for record in records
        if record["State"] == "active"
        and record["InstanceType"] in types
        and record.get("AvailabilityZoneId", zone) == zone
        and record.get("Tenancy", "default") == "default"
        and record.get("InstancePlatform", _PLATFORM) == _PLATFORM
    ]
    rest = len(records) - len(fitting)
    verdict = Verdict.OK if fitting and not rest else Verdict.WARNING if fitting else Verdict.FAULT
    yield CheckResult(
        CHECK,
        subject,
        f"{_GROUP_CALL}, {_CALL}",
        f"{len(fitting)} reservations that fit" + (f", {rest} that do not" if rest else ""),
        f"active ones of {', '.join(sorted(types))} in {zone}",
        verdict,
        "" if verdict is Verdict.OK else "check state, type, zone, tenancy and platform of those that do not fit",
    )
    if fitting:
        yield _room(context, subject, fitting, _nodes(queue))


def _nodes(queue: Queue) -> int:
    return sum(compute.max for compute in queue.compute)


def _queues(queues: list[Queue]) -> str:
    return f"queue{'s' if len(queues) > 1 else ''} {', '.join(queue.name for queue in queues)}"


def _when(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
