"""Names of an environment's stacks and SNS topics, and the tag that all of its stacks carry."""

from __future__ import annotations

from typing import Literal

from settings.model import Environment
from settings.regions import partition

STACKS = ("network", "storage", "data-links", "images", "api", "database", "cluster", "observability", "promotion")
"""The parts, in the order of deployment; a removal goes backwards. `promotion` exists only where a pipeline deploys the
environment, `database` only where `cluster.slurm.accounting` makes a database or removes it.
"""

ENVIRONMENT_TAG = "trainyard:environment"
"""Key of the tag with the environment's name."""

HOST_TAG = "trainyard:monitoring"
"""Key of the tag of the monitoring host and its volume; the value is the environment's name."""


def stack_name(environment: Environment, part: str) -> str:
    """Name in CloudFormation of the stack of one part, for example `local-network`."""
    return f"{environment.name}-{part}"


def pascal(name: str) -> str:
    """A name as part of a logical id or as a property: letters and digits only, stop_fleet is StopFleet."""
    return "".join(part.capitalize() for part in "".join(c if c.isalnum() else " " for c in name).split())


def has_database_stack(environment: Environment) -> bool:
    """Whether the file makes or removes a database; a deployed one stays as it is where the key is left out."""
    accounting = environment.cluster.slurm.accounting
    return accounting is not None and accounting.uri is None


def parts(environment: Environment) -> tuple[str, ...]:
    """The parts of STACKS that the environment may have."""
    return tuple(part for part in STACKS if part != "database" or has_database_stack(environment))


def topic_arn(environment: Environment, of: Literal["notifications", "jobs"] = "notifications") -> str:
    """ARN of a topic of the stack observability: for those who run the cluster, or for users about their jobs.

    The name is fixed, because the stack of the cluster, whose nodes publish, is deployed first.
    """
    place = f"{environment.region}:{environment.account}"
    return f"arn:{partition(environment.region)}:sns:{place}:trainyard-{environment.name}-{of}"
