"""Repositories and log groups have fixed names, and outlive their stack where the retention says so."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict
from settings.stacks import ENVIRONMENT_TAG, stack_name

_ADOPT = "deploy with `cdk deploy --all --import-existing-resources`, which adopts it, or delete it"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each repository, and the log group of FSx for Lustre if the environment has a Lustre file system."""
    environment = context.environment
    names = [environment.repository_name(repository.name) for repository in environment.images.repositories]
    for name in names:
        owner = None if name in context.ids("AWS::ECR::Repository") else _owner(context, name)
        yield _result(f"repository {name}", "ecr:DescribeRepositories", owner, environment.name)
    name = f"/aws/fsx/{stack_name(environment, 'storage')}"
    if environment.storage.lustre and name not in context.ids("AWS::Logs::LogGroup"):
        groups = context.aws.items("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name)
        # The name contains the environment's: only a stack that was deleted can have left it.
        owner = environment.name if any(group["logGroupName"] == name for group in groups) else None
        yield _result(f"log group {name}", "logs:DescribeLogGroups", owner, environment.name)


def _owner(context: CheckContext, name: str) -> str | None:
    """The environment that a repository is tagged with, empty without a tag; None if there is no such repository."""
    try:
        [found] = context.aws.call("ecr", "describe_repositories", repositoryNames=[name])["repositories"]
    except ClientError as error:
        if code_of(error) != "RepositoryNotFoundException":
            raise
        return None
    tags = context.aws.call("ecr", "list_tags_for_resource", resourceArn=found["repositoryArn"])["tags"]
    return next((str(tag["Value"]) for tag in tags if tag["Key"] == ENVIRONMENT_TAG), "")


def _result(subject: str, call: str, owner: str | None, own: str) -> CheckResult:
    wanted = "free, or of this environment's stacks"
    if owner is None:
        return CheckResult(subject, call, wanted, wanted, Verdict.OK)
    if owner == own:
        return CheckResult(subject, call, "left behind by a deleted stack", wanted, Verdict.WARNING, _ADOPT)
    todo = "set another images.prefix, or another name"
    found = f"exists, of the environment {owner}" if owner else f"exists, without the tag {ENVIRONMENT_TAG}"
    return CheckResult(subject, call, found, wanted, Verdict.FAULT, todo)
