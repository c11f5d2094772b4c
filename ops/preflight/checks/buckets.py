"""Bucket names that the file fixes. A bucket name is unique in an AWS partition."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, note

NAMES = ("data", "checkpoints", "assets", "access-logs")
"""What `trainyard.buckets` appends to the prefix."""


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each bucket of the environment."""
    prefix = context.environment.storage.buckets.name_prefix
    if prefix is None:
        yield note(", ".join(NAMES), "no fixed names", "CloudFormation generates names that are free")
        return
    ours = context.ids("AWS::S3::Bucket")
    for name in (f"{prefix}-{part}" for part in NAMES):
        found, verdict, todo = ("the environment's own", Verdict.OK, "") if name in ours else _look(context, name)
        yield CheckResult(name, "s3:HeadBucket", found, "free, or the environment's own", verdict, todo)


def _look(context: CheckContext, name: str) -> tuple[str, Verdict, str]:
    other = "set another storage.buckets.name_prefix"
    try:
        # With the expected owner, because a public bucket of another account would look like the account's own.
        answer = context.aws.call("s3", "head_bucket", Bucket=name, ExpectedBucketOwner=context.environment.account)
    except ClientError as error:
        match code_of(error):
            case "404" | "NoSuchBucket" | "NotFound":
                return "free", Verdict.OK, ""
            case "403" | "Forbidden":
                todo = f"{other}; if the bucket is the account's own, grant s3:ListBucket and try again"
                return "taken, probably by another account (403)", Verdict.FAULT, todo
            case "301" | "PermanentRedirect" | "400":
                return "taken, in another region", Verdict.FAULT, other
        raise
    region = context.environment.region
    if answer.get("BucketRegion", region) != region:
        return f"taken, by this account in {answer['BucketRegion']}", Verdict.FAULT, other
    todo = f"deploy with `cdk deploy --all --import-existing-resources`, which adopts it, or {other}"
    return "exists in the account, outside of the environment's stacks", Verdict.WARNING, todo
