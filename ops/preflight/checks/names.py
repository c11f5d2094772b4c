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
    for repository in environment.images.repositories:
        yield _repository(context, environment.repository_name(repository.name))
    if environment.storage.lustre:
        yield _log_group(context, f"/aws/fsx/{stack_name(environment, 'storage')}")


def _repository(context: CheckContext, name: str) -> CheckResult:
    found, verdict, todo = "free", Verdict.OK, ""
    if name in context.ids("AWS::ECR::Repository"):
        found = "the environment's own"
    elif (owner := _owner(context, name)) is not None:
        left_behind = owner == context.environment.name
        found = f"exists, of the environment {owner}" if owner else "exists, of no environment"
        verdict = Verdict.WARNING if left_behind else Verdict.FAULT
        todo = _ADOPT if left_behind else "set another images.prefix, or another name"
    return CheckResult(f"repository {name}", "ecr:DescribeRepositories", found, "free, or its own", verdict, todo)


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


def _log_group(context: CheckContext, name: str) -> CheckResult:
    found, verdict, todo = "free", Verdict.OK, ""
    if name in context.ids("AWS::Logs::LogGroup"):
        found = "the environment's own"
    elif any(
        group["logGroupName"] == name
        for group in context.aws.items("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    ):
        # The name contains the environment's: only a stack that was deleted can have left it.
        found, verdict, todo = "exists, outside of the environment's stacks", Verdict.WARNING, _ADOPT
    return CheckResult(f"log group {name}", "logs:DescribeLogGroups", found, "free, or its own", verdict, todo)
