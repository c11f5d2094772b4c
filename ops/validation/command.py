"""One validation: what to check, asked on the head node of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ops.problem import Problem
from ops.validation import head_node, plan
from ops.validation.report import Report
from ops.validation.walk import Walk
from settings import Environment
from settings.model.environment import Validation

if TYPE_CHECKING:
    import boto3


def wishes(
    file: Validation,
    *,
    only: tuple[str, ...] | None,
    skip: tuple[str, ...],
    nodes: int,
    image: str,
    storage_percent: int,
) -> plan.Wishes:
    """The options of the command line; the environment file supplies what they leave out."""
    checks = only or tuple(check for check in plan.CHECKS if check not in skip)
    if not checks:
        raise Problem("--skip leaves no check; leave one of them out")
    insisted = only or tuple(check for check in file.required if check in checks)
    return plan.Wishes(checks, insisted, nodes, image or file.image or "", storage_percent)


def validate(
    environment: Environment,
    wanted: plan.Wishes,
    session: boto3.Session,
    *,
    start_minutes: float,
    total_minutes: float,
    progress: Callable[[str], None],
) -> Report:
    """Run the checks and wait for them.

    Raises:
        Problem: there is no cluster, or its head node does not answer.
    """
    ssm = session.client("ssm")
    document = head_node.document(ssm, environment.name)
    instance = head_node.find(session.client("ec2"), environment.cluster_name)
    node = head_node.HeadNode(ssm, instance, document)
    progress(f"asking {instance}, the head node of {environment.cluster_name}")
    try:
        facts = node.ask("facts")
    except head_node.Refused as refused:
        raise Problem(str(refused)) from refused
    if wanted.image and "/" not in wanted.image and wanted.image not in facts["images"]:
        known = ", ".join(facts["images"]) or "none"
        raise Problem(
            f"The image {wanted.image} is not on the cluster; imported are: {known}.\n"
            "Import it on the head node: images/import-container.sh IMAGE_URI NAME"
        )
    made = plan.make(environment, wanted, plan.Means(facts["programs"], facts["images"]))
    run = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    lines = tuple(Walk(node, run, start_minutes, progress, total_minutes=total_minutes).lines(made))
    return Report(environment.name, environment.cluster_name, instance, lines)
