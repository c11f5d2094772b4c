"""The stacks of an environment: their parts, their names in CloudFormation, and the tag that all of them carry."""

from __future__ import annotations

from settings.model import Environment

STACKS = ("network", "storage", "data-links", "images", "api", "cluster", "observability", "promotion")
"""The parts, in the order of deployment. `promotion` exists only where a pipeline deploys the environment."""

ENVIRONMENT_TAG = "trainyard:environment"
"""Key of the tag with the environment's name."""


def stack_name(environment: Environment, part: str) -> str:
    """Name in CloudFormation of the stack of one part, for example `local-network`."""
    return f"{environment.name}-{part}"
