"""Fetches the usage of a cluster from its head node, and what is reserved for it from EC2."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.preflight.aws import emulated
from ops.problem import Problem
from ops.validation import head_node
from ops.validation.head_node import HeadNode, Refused
from settings import Environment
from settings.model.cluster import Queue
from settings.prices import hourly_usd, node_prices

if TYPE_CHECKING:
    import boto3
    from types_boto3_ec2.client import EC2Client

MOST_BYTES = 64 << 20
HOUR = 3600
_RELEASED = ("cancelled", "failed", "unsupported", "payment-failed")
"""States without capacity. EC2 still reports TotalInstanceCount and no end; `expired` has EndDate."""


@dataclass(frozen=True)
class Row:
    """What one team, user and model used of a compute resource, in runs of one outcome.

    `usd` is None where the price of the compute resource is unknown.
    """

    team: str
    user: str
    model: str
    outcome: str
    resource: str
    runs: int
    gpu_hours: float
    node_hours: float
    usd: float | None


@dataclass(frozen=True)
class Job:
    """One run of a job."""

    job: str
    name: str
    user: str
    team: str
    model: str
    state: str
    start: float
    end: float
    gpu_hours: float
    node_hours: float
    usd: float | None


@dataclass(frozen=True)
class Unused:
    """Node hours that cost without a job: idle nodes, drained or down ones, or reserved instances that did not run."""

    kind: str
    resource: str
    gpu_hours: float
    node_hours: float
    usd: float | None


@dataclass(frozen=True)
class Usage:
    """The usage of a window, times in seconds since 1970.

    Attributes:
        days: day, team, GPU hours, node hours.
        runs: runs of jobs in the window; `jobs` has the largest.
        notes: what the figures lack.
        simulated: the nodes are those of the emulated AWS, which cost nothing.
    """

    environment: str
    since: float
    until: float
    rows: tuple[Row, ...]
    unused: tuple[Unused, ...]
    jobs: tuple[Job, ...]
    days: tuple[tuple[str, str, float, float], ...]
    runs: int
    notes: tuple[str, ...]
    simulated: bool = False


def usage(environment: Environment, session: boto3.Session, since: int, until: int, jobs: int) -> Usage:
    """The usage between two times, with the largest jobs.

    Raises:
        Problem: the cluster has no accounting, or its head node does not answer.
    """
    if not environment.cluster.slurm.accounting:
        raise Problem(
            f"{environment.name} has no accounting, so nobody knows who used it: cluster.slurm.accounting is false.\n"
            "Set it to true and deploy; records begin then."
        )
    ssm, ec2 = session.client("ssm"), session.client("ec2")
    document = head_node.document(ssm, environment.name, "usage")
    node = HeadNode(ssm, head_node.find(ec2, environment.cluster_name), document, "usage")
    found = fetch(node, since, until, jobs)
    reserved, notes = _reserved(environment, ec2, found)
    return replace(priced(environment, found, reserved, notes), simulated=emulated(ssm))


def fetch(node: HeadNode, since: int, until: int, jobs: int) -> dict[str, Any]:
    """The report of cluster_assets/usage/usage.py, from all its pages. Raises Problem."""
    try:
        first = node.ask("report", str(since), str(until), str(jobs))
        pages = [first["data"]]
        pages += [node.ask("page", first["digest"], str(number))["data"] for number in range(1, first["pages"])]
        text = zlib.decompressobj().decompress(base64.b64decode("".join(pages)), MOST_BYTES)
        found: dict[str, Any] = json.loads(text)
    except Refused as refused:
        raise Problem(f"The head node cannot report the usage: {refused}") from refused
    except (KeyError, ValueError, zlib.error) as error:
        raise Problem(f"The head node {node.instance} sent a report that cannot be read: {error}") from error
    return found


def priced(
    environment: Environment, found: dict[str, Any], reserved: tuple[Unused, ...] = (), notes: tuple[str, ...] = ()
) -> Usage:
    """A report of the head node with the environment's prices."""
    known = node_prices(environment)

    def usd(hours: dict[str, float]) -> float | None:
        parts = [(known.get(name), value) for name, value in hours.items() if value]
        return sum((price or 0) * value for price, value in parts) if all(p is not None for p, _ in parts) else None

    resources = found["resources"]
    names = ("team", "user", "model", "outcome", "resource", "runs", "gpu_hours", "node_hours")
    rows = tuple(
        Row(**dict(zip(names, row, strict=True)), usd=usd({row[4]: row[7]}))  # resource and node hours
        for row in found["rows"]
    )
    jobs = tuple(
        Job(**{**job, "node_hours": sum(job["node_hours"].values())}, usd=usd(job["node_hours"]))
        for job in found["jobs"]
    )
    unused = tuple(
        Unused(kind, name, row[key] * row["gpus"], row[key], usd({name: row[key]}))
        for kind, key in (("idle", "idle"), ("drained or down", "down"))
        for name, row in resources.items()
        if row[key]
    )
    without = sorted(name for name, row in resources.items() if row["up"] and known.get(name) is None)
    if without:
        notes += (f"Without a price, so only hours are shown: {', '.join(without)}. Give cost.prices.",)
    if not found["gpus_counted"]:
        notes += ("Slurm does not count GPUs (AccountingStorageTRES has no gres/gpu): they follow from jobs' CPUs.",)
    days = tuple((day, team, gpu, node) for day, team, gpu, node in found["days"])
    return Usage(
        environment.name, found["since"], found["until"], rows, (*unused, *reserved), jobs, days, found["runs"], notes
    )


def _reserved(
    environment: Environment, ec2: EC2Client, found: dict[str, Any]
) -> tuple[tuple[Unused, ...], tuple[str, ...]]:
    """Reserved instances that did not run, and notes on reservations that cannot be read."""
    unused, notes = list[Unused](), list[str]()
    queues: dict[str, list[Queue]] = {}
    for queue in environment.cluster.queues:
        if queue.capacity.reservation_group:
            notes.append(f"Reservations of {queue.capacity.reservation_group}, queue {queue.name}, are not counted.")
        if queue.capacity.reservation:
            queues.setdefault(queue.capacity.reservation, []).append(queue)
    for reservation, users in queues.items():
        names = [queue.name for queue in users]
        try:
            listed = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][0]
        except (BotoCoreError, ClientError, IndexError) as error:
            notes.append(f"Unused hours of {reservation}, queue {', '.join(names)}, are unknown: {error}")
            continue
        if (state := listed.get("State")) in _RELEASED:
            reason = f"it is {state}, and EC2 does not report since when"
            notes.append(f"Unused hours of {reservation}, queue {', '.join(names)}, are not counted: {reason}.")
            continue
        start, end = _times(listed)
        hours = max(0.0, min(end, found["until"]) - max(start, found["since"])) / HOUR
        own = [row for name, row in found["resources"].items() if name.partition("/")[0] in names]
        left = listed["TotalInstanceCount"] * hours - sum(row["up"] for row in own)
        price = hourly_usd(environment, users[0], [listed["InstanceType"]])[listed["InstanceType"]]
        if left > 0:
            gpus = max((row["gpus"] for row in own), default=0)
            usd = None if price is None else left * price
            unused.append(Unused("reserved, not running", f"{', '.join(names)} {reservation}", left * gpus, left, usd))
            if usd is None:
                notes.append(f"The price of {reservation} is unknown: give cost.prices.")
    return tuple(unused), tuple(notes)


def _times(reservation: Any) -> tuple[float, float]:  # noqa: ANN401
    """When a reservation began and ended; infinity while it is open."""
    start: datetime = reservation.get("StartDate") or reservation["CreateDate"]
    end: datetime = reservation.get("EndDate") or datetime.max.replace(tzinfo=UTC)
    return start.timestamp(), end.timestamp()


def grouped(found: Usage, by: str) -> Iterator[tuple[str, list[Row]]]:
    """The rows by team, user or model; the group with most node hours first."""
    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        groups.setdefault(getattr(row, by), []).append(row)
    yield from sorted(groups.items(), key=lambda item: -sum(row.node_hours for row in item[1]))
