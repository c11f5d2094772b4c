"""Names of a promotion's roles, which two accounts must agree on before the roles exist."""

from __future__ import annotations

from typing import Literal, get_args

from settings.model import Environment
from settings.pipeline.model import Pipeline
from settings.regions import partition

Purpose = Literal["preflight", "diff", "validation"]
"""Purpose of a step. Each has its own role in both accounts, with the least permissions."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

GitHubPurpose = Literal["github-review", "github-deployment"]


def target_role(environment: Environment, purpose: Purpose | GitHubPurpose) -> str:
    """Name of the role in the environment's account. It includes the region, because roles are global."""
    return f"{environment.name}-{purpose}-{environment.region}"


def target_role_arn(environment: Environment, purpose: Purpose | GitHubPurpose) -> str:
    """ARN of `target_role`."""
    name = target_role(environment, purpose)
    return f"arn:{partition(environment.region)}:iam::{environment.account}:role/{name}"


def step_role(pipeline: Pipeline, environment: Environment, purpose: Purpose) -> str:
    """Name of the role in the pipeline's account with which the steps of one environment run."""
    return f"{pipeline.name}-{environment.name}-{purpose}"


def step_role_arn(pipeline: Pipeline, environment: Environment, purpose: Purpose) -> str:
    """ARN of `step_role`."""
    name = step_role(pipeline, environment, purpose)
    return f"arn:{partition(pipeline.region)}:iam::{pipeline.account}:role/{name}"
