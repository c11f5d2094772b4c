"""Names that two accounts must agree on before either has made anything: those of the roles of a promotion."""

from __future__ import annotations

from typing import Literal, get_args

from settings.model import Environment
from settings.pipeline.model import Pipeline
from settings.regions import partition

Purpose = Literal["preflight", "diff", "validation"]
"""What a step is there for. Each has a role of its own on both sides, with what it needs and no more."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

GitHubPurpose = Literal["github-review", "github-deployment"]


def target_role(environment: Environment, purpose: Purpose | GitHubPurpose) -> str:
    """Name of the role in the environment's account. The region is in it, because roles know none."""
    return f"{environment.name}-{purpose}-{environment.region}"


def target_role_arn(environment: Environment, purpose: Purpose | GitHubPurpose) -> str:
    """ARN of the same."""
    name = target_role(environment, purpose)
    return f"arn:{partition(environment.region)}:iam::{environment.account}:role/{name}"


def step_role(pipeline: Pipeline, environment: Environment, purpose: Purpose) -> str:
    """Name of the role in the pipeline's account that the steps of one environment run with."""
    return f"{pipeline.name}-{environment.name}-{purpose}"


def step_role_arn(pipeline: Pipeline, environment: Environment, purpose: Purpose) -> str:
    """ARN of the same."""
    name = step_role(pipeline, environment, purpose)
    return f"arn:{partition(pipeline.region)}:iam::{pipeline.account}:role/{name}"
