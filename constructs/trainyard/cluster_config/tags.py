"""Tags of everything that ParallelCluster makes."""

from __future__ import annotations

from settings.model.environment import Environment
from settings.stacks import ENVIRONMENT_TAG
from trainyard.cluster_config.section import Section


def tags(environment: Environment) -> list[Section]:
    """The environment's tags and its name, sorted by key. The custom resource adds who owns the cluster."""
    return [
        {"Key": key, "Value": value}
        for key, value in sorted({**environment.tags, ENVIRONMENT_TAG: environment.name}.items())
    ]
