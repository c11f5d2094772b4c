"""Grafana's dashboards of an environment, as code."""

from __future__ import annotations

from settings import Environment
from trainyard.dashboards.cluster import OVERVIEW, SLURM
from trainyard.dashboards.cost import cost
from trainyard.dashboards.file_systems import file_systems
from trainyard.dashboards.gpus import EFA_NCCL, GPU_HEALTH, JOB
from trainyard.dashboards.model import Dashboard

__all__ = ["dashboards", "render"]


def dashboards(environment: Environment) -> tuple[Dashboard, ...]:
    """All dashboards; the first one is the start page."""
    return OVERVIEW, GPU_HEALTH, JOB, EFA_NCCL, file_systems(environment), SLURM, cost(environment)


def render(environment: Environment) -> dict[str, str]:
    """Grafana's JSON by file name, the same for the same environment."""
    # The SDK takes 0.1 s to import, and only this function needs it.
    from trainyard.dashboards.grafana import dashboard_json

    return {f"{one.name}.json": dashboard_json(one, environment) for one in dashboards(environment)}
