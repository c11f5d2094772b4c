"""Capacity reservations and capacity blocks: there, active, of the right kind, in the right zone, and free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from settings.model.cluster import Queue

CHECK = "capacity"
SOON = timedelta(days=1)
_CALL = "ec2:DescribeCapacityReservations"
_PLATFORM = "Linux/UNIX"


def check(question: Question) -> Iterator[Line]:
    """Each reservation that a queue names, with the needs of all queues that name it together."""
    by_reservation: dict[str, list[Queue]] = defaultdict(list)
    for queue in question.environment.cluster.queues:
        capacity = queue.capacity
        if capacity.reservation_group:
            yield from _group(question, queue, capacity.reservation_group)
        elif capacity.reservation:
            by_reservation[capacity.reservation].append(queue)
        else:
            yield Line(
                CHECK,
                f"queue {queue.name}",
                "nothing",
                f"{capacity.type}: no reservation",
                "nothing is held for it; EC2 says at each launch whether it has instances",
                Verdict.NOTE,
            )
    for name, queues in by_reservation.items():
        record = _record(question, name)
        subject = f"{name} of {_queues(queues)}"
        if record is None:
            yield Line(
                CHECK,
                subject,
                _CALL,
                f"no such reservation in account {question.environment.account}, {question.environment.region}",
                "a reservation that this account owns or that is shared with it",
                Verdict.FAULT,
                "correct the queue's capacity.reservation, or have the reservation shared with the account",
            )
            continue
        yield _state(question, subject, record)
        yield from _nature(question, subject, record, queues)
        yield _room(question, subject, [record], sum(_nodes(queue) for queue in queues))


def _record(question: Question, name: str) -> dict[str, Any] | None:
    try:
        found = question.aws.call("ec2", "describe_capacity_reservations", CapacityReservationIds=[name])
    except ClientError as error:
        if code_of(error).startswith("InvalidCapacityReservationId"):
            return None
        raise
    return next(iter(found["CapacityReservations"]), None)


def _state(question: Question, subject: str, record: dict[str, Any]) -> Line:
    state, wanted = str(record["State"]), "active"
    found, verdict, todo = state, Verdict.OK, ""
    starts, ends = _when(record.get("StartDate")), _when(record.get("EndDate"))
    block = record.get("ReservationType") == "capacity-block"
    if ends is not None:
        found += f" until {ends:%Y-%m-%d %H:%M} UTC"
    if state == "scheduled" and block:
        found = f"scheduled: starts {starts:%Y-%m-%d %H:%M} UTC" if starts else "scheduled"
        verdict = Verdict.WARNING
        todo = "a deployment now makes the cluster, whose nodes wait for the block to start"
    elif state != "active":
        verdict = Verdict.FAULT
        todo = "wait until it is active" if state in ("pending", "scheduled", "assessing") else "buy or make another"
    elif ends is not None and ends <= question.now:
        verdict, todo = Verdict.FAULT, "it has ended: buy or make another"
    elif ends is not None and ends - question.now < SOON:
        verdict, todo = Verdict.WARNING, "it ends within a day, and its instances with it: extend it"
    return Line(CHECK, f"{subject}: state", _CALL, found, wanted, verdict, todo)


def _nature(question: Question, subject: str, record: dict[str, Any], queues: list[Queue]) -> Iterator[Line]:
    kinds = {"capacity-block" if queue.capacity.type == "capacity-block" else "odcr" for queue in queues}
    kind = "capacity-block" if record.get("ReservationType") == "capacity-block" else "odcr"
    types = sorted({name for queue in queues for compute in queue.compute for name in compute.instance_types})
    zone = question.environment.network.zone
    rows = (
        ("kind", kind, sorted(kinds), "correct the queue's capacity.type"),
        ("instance type", record["InstanceType"], types, "name the reservation's type in the queue"),
        (
            "zone",
            record.get("AvailabilityZoneId") or record.get("AvailabilityZone", "?"),
            [zone],
            "set network.zone to the reservation's, or take a reservation in the environment's zone",
        ),
        ("tenancy", record.get("Tenancy", "default"), ["default"], "make a reservation of default tenancy"),
        ("platform", record.get("InstancePlatform", _PLATFORM), [_PLATFORM], f"make a reservation for {_PLATFORM}"),
    )
    for what, found, wanted, todo in rows:
        right = wanted == [found]
        yield Line(
            CHECK,
            f"{subject}: {what}",
            _CALL,
            str(found),
            ", ".join(wanted),
            Verdict.OK if right else Verdict.FAULT,
            "" if right else todo,
        )


def _room(question: Question, subject: str, records: list[dict[str, Any]], nodes: int) -> Line:
    """Enough instances that are free, or that our own nodes have already."""
    names = {record["CapacityReservationId"] for record in records}
    total = sum(int(record["TotalInstanceCount"]) for record in records)
    free = sum(int(record["AvailableInstanceCount"]) for record in records)
    ours = 0
    if free < nodes:  # what our own nodes hold is looked at only where it matters
        there = [item for item in question.instances if item.get("CapacityReservationId") in names]
        ours = sum(question.is_ours(item) for item in there)
    held = f", {ours} held by this cluster" if ours else ""
    found = f"{free} of {total} free{held}"
    enough = free + ours >= nodes
    todo = "" if enough else "end the instances of others in it"
    if total < nodes:
        todo = f"enlarge the reservation to {nodes}, or lower the queue's max"
    verdict = Verdict.OK if enough else Verdict.FAULT
    return Line(CHECK, f"{subject}: instances", _CALL, found, f"{nodes}, the queue's max", verdict, todo)


def _group(question: Question, queue: Queue, arn: str) -> Iterator[Line]:
    subject = f"group {arn.rpartition('/')[2]} of {_queues([queue])}"
    wanted = "a resource group of reservations"
    try:
        names = question.members(arn)
    except ClientError as error:
        if code_of(error) not in ("NotFoundException", "BadRequestException"):
            raise
        yield Line(
            CHECK,
            subject,
            "resource-groups:ListGroupResources",
            f"no such group: {error.response['Error'].get('Message', '')}",
            wanted,
            Verdict.FAULT,
            "correct the queue's capacity.reservation_group",
        )
        return
    records = [record for name in names if (record := _record(question, name)) is not None]
    types = {name for compute in queue.compute for name in compute.instance_types}
    zone = question.environment.network.zone
    fitting = [
        record
        for record in records
        if record["State"] == "active"
        and record["InstanceType"] in types
        and record.get("AvailabilityZoneId", zone) == zone
        and record.get("Tenancy", "default") == "default"
        and record.get("InstancePlatform", _PLATFORM) == _PLATFORM
    ]
    left = len(records) - len(fitting)
    yield Line(
        CHECK,
        subject,
        "resource-groups:ListGroupResources, " + _CALL,
        f"{len(fitting)} reservations that fit" + (f", {left} that do not" if left else ""),
        f"active ones of {', '.join(sorted(types))} in {zone}",
        Verdict.OK if fitting and not left else Verdict.WARNING if fitting else Verdict.FAULT,
        "look at those that do not fit: state, type, zone, tenancy, platform" if left or not fitting else "",
    )
    if fitting:
        yield _room(question, subject, fitting, _nodes(queue))


def _nodes(queue: Queue) -> int:
    return sum(compute.max for compute in queue.compute)


def _queues(queues: list[Queue]) -> str:
    return f"queue{'s' if len(queues) > 1 else ''} {', '.join(queue.name for queue in queues)}"


def _when(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
