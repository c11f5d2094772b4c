"""Names of buckets that the file fixes: one bucket a name in all of AWS's partition."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question

CHECK = "buckets"
NAMES = ("data", "checkpoints", "assets", "access-logs")
"""What `trainyard.buckets` puts behind the prefix."""

_ASKED = "s3:HeadBucket"
_WANTED = "free, or the environment's own"
_ELSEWHERE = ("301", "PermanentRedirect", "400")


def check(question: Question) -> Iterator[Line]:
    """Each bucket of the environment."""
    prefix = question.environment.storage.buckets.name_prefix
    if prefix is None:
        yield Line(
            CHECK,
            "data, checkpoints, assets, access-logs",
            "nothing",
            "no fixed names",
            "CloudFormation makes up names that are free",
            Verdict.NOTE,
        )
        return
    ours = question.standing.ids("AWS::S3::Bucket")
    for part in NAMES:
        name = f"{prefix}-{part}"
        found, verdict, todo = _look(question, name, ours=name in ours)
        yield Line(CHECK, name, _ASKED, found, _WANTED, verdict, todo)


def _look(question: Question, name: str, *, ours: bool) -> tuple[str, Verdict, str]:
    other = "set another storage.buckets.name_prefix"
    if ours:
        return "the environment's own", Verdict.OK, ""
    try:
        # The owner is named, or a bucket of others that is open to everyone would pass for the account's own.
        answer = question.aws.call("s3", "head_bucket", Bucket=name, ExpectedBucketOwner=question.environment.account)
    except ClientError as error:
        code = code_of(error)
        if code in ("404", "NoSuchBucket", "NotFound"):
            return "free", Verdict.OK, ""
        if code in ("403", "Forbidden"):
            todo = f"{other}; if the bucket is the account's own, grant s3:ListBucket and ask again"
            return "taken, by another account as it seems (403)", Verdict.FAULT, todo
        if code in _ELSEWHERE:
            return "taken, in another region", Verdict.FAULT, other
        raise
    region = question.environment.region
    if answer.get("BucketRegion", region) != region:
        return f"taken, by this account in {answer['BucketRegion']}", Verdict.FAULT, other
    todo = "deploy with `cdk deploy --all --import-existing-resources`, which takes it up, or " + other
    return "stands in the account, outside of the environment's stacks", Verdict.WARNING, todo
