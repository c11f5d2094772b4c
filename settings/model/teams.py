"""Teams that share the cluster: Slurm accounts with shares and limits, qualities of service, reservations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.model.base import Name, Part, QueueName, text

_START = "a time in UTC, YYYY-MM-DDTHH:MM, for example 2026-12-01T08:00"
MAX_PRIORITY = 1000
"""Largest priority of a quality of service: a step of one outweighs fair share and age (cluster_config/shares.py)."""
Start = Annotated[str, text(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d", _START)]


class Team(Part):
    """A team: a Slurm account. Users name it in the people file (docs/shares.md)."""

    name: Name = Field(description="Name of the team, and of its Slurm account.")
    share: int = Field(
        1, ge=1, le=1_000_000, description="Fair share: what the team may use of the cluster, relative to the others'."
    )
    max_gpus: int | None = Field(
        None,
        gt=0,
        description="Most GPUs of all running jobs of the team together. Default: those of its models' nodes; no limit"
        " without models.",
    )
    max_gpus_per_user: int | None = Field(
        None, gt=0, description="Most GPUs of all running jobs of one of its users. Default: no limit."
    )
    qos: tuple[Name, ...] = Field(
        (), description="Qualities of service that its jobs may use, the first by default. Default: all, normal first."
    )
    monthly_usd: int | None = Field(
        None, gt=0, description="Budget in USD a month, with alerts as `cost.budget` has them. Default: none."
    )


class Qos(Part):
    """A quality of service: what a job may do more, or less, than others."""

    name: Name = Field(description="Name; `normal` exists always.")
    priority: int = Field(0, ge=0, le=MAX_PRIORITY, description="Jobs of a higher number start first.")
    preempts: tuple[Name, ...] = Field((), description="Names of the QOS whose jobs make room for these jobs.")
    grace_seconds: int = Field(
        120, ge=0, le=86400, description="Seconds that a job of this QOS gets to save its state when preempted."
    )
    max_gpus_per_team: int | None = Field(None, gt=0, description="Most GPUs of a team in this QOS.")
    max_gpus_per_user: int | None = Field(None, gt=0, description="Most GPUs of a user in this QOS.")
    max_jobs_per_user: int | None = Field(None, gt=0, description="Most running jobs of a user in this QOS.")
    max_hours: int | None = Field(None, gt=0, le=8760, description="Most hours of a job. Default: the queue's limit.")
    idle_gpu_minutes: int | None = Field(
        None,
        ge=5,
        le=10080,
        description="End interactive jobs whose GPUs all idle for this long, after a warning. Default: never.",
    )


class SlurmReservation(Part):
    """Nodes that Slurm keeps for some teams during a time."""

    name: Name = Field(description="Name; jobs ask for it with --reservation.")
    queue: QueueName = Field(description="Queue of the nodes.")
    nodes: int = Field(gt=0, description="Number of nodes.")
    teams: tuple[Name, ...] = Field(min_length=1, description="Teams whose jobs may use it.")
    start: Start = Field(description="Start in UTC, YYYY-MM-DDTHH:MM.")
    hours: int = Field(gt=0, le=8760, description="Duration in hours.")
