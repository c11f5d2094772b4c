"""All checks, one after the other; what one may not ask, or AWS does not answer, is a line and ends no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from botocore.exceptions import ClientError

from ops.preflight.aws import Denied, Reader, code_of
from ops.preflight.checks import (
    addresses,
    buckets,
    capacity,
    cluster,
    file_system_quotas,
    images,
    network_quotas,
    offerings,
    regions,
    vcpus,
)
from ops.preflight.line import Line, Report, Verdict
from ops.preflight.question import Question
from ops.preflight.standing import Standing, look
from settings import Environment

Check = Callable[[Question], Iterator[Line]]
CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("capacity", "reservations", capacity.check),
    ("offerings", "instance types", offerings.check),
    ("quotas", "vCPUs", vcpus.check),
    ("quotas", "file systems", file_system_quotas.check),
    ("quotas", "network", network_quotas.check),
    ("regions", "deployment types", regions.check),
    ("addresses", "subnets", addresses.check),
    ("images", "images", images.check),
    ("buckets", "names", buckets.check),
    ("cluster", "dry run", cluster.check),
)


def run(
    aws: Reader,
    environment: Environment,
    file: Path,
    now: datetime,
    checks: tuple[tuple[str, str, Check], ...] = CHECKS,
) -> Report:
    """Ask everything.

    Raises:
        Problem: what is needed here, beside AWS, is not there.
    """
    lines: list[Line] = []
    try:
        standing = look(aws, environment)
    except (Denied, ClientError) as error:
        standing = Standing()
        lines.append(_unanswered("standing", "the environment's stacks", error))
    question = Question(environment, file, aws, standing, now)
    for name, subject, check in checks:
        try:
            for line in check(question):  # one by one, so that lines before a refusal stay
                lines.append(line)
        except (Denied, ClientError) as error:
            lines.append(_unanswered(name, subject, error))
    return Report(environment.name, environment.account, environment.region, tuple(lines))


def _unanswered(check: str, subject: str, error: Denied | ClientError) -> Line:
    if isinstance(error, Denied):
        # A pipeline's role is deployed by the very stage that this is asked before.
        todo = (
            f"grant {error.action} to the caller (all actions: constructs/trainyard/pipeline/actions.py; "
            "for a pipeline's role, deploy <environment>/promotion by hand)"
        )
        return Line(check, subject, error.action, "not allowed", "the permission", Verdict.UNKNOWN, todo)
    return Line(
        check,
        subject,
        error.operation_name,
        f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}",
        "an answer",
        Verdict.UNKNOWN,
        "ask again; if it stays, the message tells what AWS objects to",
    )
