"""Runs all checks. A denied or failed call becomes an UNKNOWN result; the other checks still run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from botocore.exceptions import ClientError

from ops.preflight.aws import Denied, Reader, code_of
from ops.preflight.checks import CHECKS, Check
from ops.preflight.context import CheckContext
from ops.preflight.deployed import DeployedStacks, deployed_stacks
from ops.preflight.results import CheckResult, Report, Verdict
from settings import Environment


def run(
    aws: Reader,
    environment: Environment,
    file: Path,
    now: datetime,
    checks: tuple[tuple[str, str, Check], ...] = CHECKS,
) -> Report:
    """Run the checks.

    Raises:
        Problem: something on this machine is missing.
    """
    results: list[CheckResult] = []
    try:
        deployed = deployed_stacks(aws, environment)
    except (Denied, ClientError) as error:
        deployed = DeployedStacks()
        results.append(_unanswered("deployed", "the environment's stacks", error))
    context = CheckContext(environment, file, aws, deployed, now)
    for name, subject, check in checks:
        try:
            for result in check(context):  # one by one, to keep the results before an error
                results.append(result)
        except (Denied, ClientError) as error:
            results.append(_unanswered(name, subject, error))
    return Report(environment.name, environment.account, environment.region, tuple(results))


def _unanswered(check: str, subject: str, error: Denied | ClientError) -> CheckResult:
    if isinstance(error, Denied):
        # The role of a pipeline is deployed by the stage that this preflight precedes.
        todo = (
            f"grant {error.action} to the caller (all actions: constructs/trainyard/pipeline/actions.py; "
            "for a pipeline's role, deploy <environment>/promotion by hand)"
        )
        return CheckResult(check, subject, error.action, "not allowed", "the permission", Verdict.UNKNOWN, todo)
    found = f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}"
    todo = "try again; if the error remains, its message says what is wrong"
    return CheckResult(check, subject, error.operation_name, found, "an answer", Verdict.UNKNOWN, todo)
