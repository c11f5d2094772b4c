"""The checks of the preflight, one subject per file.

A new check is a file here with a generator `check(context)`, an entry in CHECKS, the IAM actions of its calls in
constructs/trainyard/pipeline/actions.py, and a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from ops.preflight.aws import Aws, Denied, code_of
from ops.preflight.checks import (
    addresses,
    buckets,
    capacity,
    cluster,
    cost,
    database,
    existing,
    images,
    names,
    offerings,
    quotas,
    services,
    vcpus,
)
from ops.preflight.context import CheckContext, Resource, deployed
from ops.preflight.results import CheckResult, Report, Verdict
from settings import Environment

Check = Callable[[CheckContext], Iterator[CheckResult]]
CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("capacity", "reservations", capacity.check),
    ("offerings", "instance types", offerings.instance_types),
    ("quotas", "vCPUs", vcpus.check),
    ("quotas", "file systems", quotas.file_systems),
    ("quotas", "network", quotas.network),
    ("regions", "deployment types", offerings.deployment_types),
    ("addresses", "subnets", addresses.check),
    ("images", "images", images.check),
    ("buckets", "names", buckets.check),
    ("existing", "file systems and buckets", existing.check),
    ("names", "repositories and log groups", names.check),
    ("database", "version and zone", database.check),
    ("services", "chat and sign-in", services.check),
    ("cost", "prices", cost.check),
    ("cluster", "dry run", cluster.check),
)
"""Group, subject and function of each check, in order."""
_ERRORS = (Denied, ClientError, ConnectionError, HTTPClientError)


def run(
    aws: Aws,
    environment: Environment,
    file: Path,
    now: datetime,
    *,
    progress: Callable[[str], None],
    checks: tuple[tuple[str, str, Check], ...] = CHECKS,
) -> Report:
    """Run all checks. A denied or failed call becomes an UNKNOWN result; the other checks still run.

    Args:
        progress: called with the name of each check.

    Raises:
        Problem: something on this machine is missing.
    """
    results: list[CheckResult] = []
    resources: tuple[Resource, ...] = ()
    try:
        resources = tuple(deployed(aws, environment))
    except _ERRORS as error:
        results.append(_unanswered("deployed", "the environment's stacks", error))
    context = CheckContext(environment, file, aws, resources, now)
    for name, subject, check in checks:
        progress(f"{name}: {subject}")
        try:
            for result in check(context):  # one by one, to keep the results before an error
                results.append(replace(result, check=name))
        except _ERRORS as error:
            results.append(_unanswered(name, subject, error))
    return Report(environment.name, environment.account, environment.region, tuple(results), aws.emulated)


def _unanswered(check: str, subject: str, error: Exception) -> CheckResult:
    if isinstance(error, Denied):
        # The role of a pipeline is deployed by the stage that this preflight precedes.
        todo = (
            f"grant {error.action} to the caller (all actions: constructs/trainyard/pipeline/actions.py; "
            "for a pipeline's role, deploy <environment>/promotion by hand)"
        )
        return CheckResult(subject, error.action, "not allowed", "the permission", Verdict.UNKNOWN, todo, check)
    found, operation = str(error), "the connection"
    if isinstance(error, ClientError):
        found = f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}"
        operation = error.operation_name
    todo = "try again; if the error remains, its message says what is wrong"
    return CheckResult(subject, operation, found, "an answer", Verdict.UNKNOWN, todo, check)
