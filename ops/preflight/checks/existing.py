"""File systems and buckets that exist outside of the environment, which it uses without changing them."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, judged


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Each exists, can be used, and is in the environment's VPC or region."""
    network, storage = context.environment.network.existing, context.environment.storage
    volumes = {}
    if any(item.type == "openzfs" for item in storage.existing):
        volumes = {item["VolumeId"]: item for item in context.aws.items("fsx", "describe_volumes", "Volumes")}
    systems = {item["FileSystemId"]: item for item in context.file_systems}
    wanted = f"an available file system of {network.vpc_id if network else 'the VPC'}"
    for item in storage.existing:
        volume = volumes.get(item.id, {})
        found = systems.get(item.id if item.type == "lustre" else volume.get("FileSystemId", ""), {})
        state = "/".join(sorted({str(part.get("Lifecycle")) for part in (found, volume) if part}))
        # An OpenZFS volume is CREATED, and a file system that changes is UPDATING; both can be mounted.
        usable = set(state.split("/")) <= {"AVAILABLE", "CREATED", "UPDATING"}
        ok = usable and network is not None and found.get("VpcId") == network.vpc_id
        shown = f"{state} in {found.get('VpcId')}" if found else "no such file system"
        todo = f"correct the id of {item.name} in storage.existing; its security group must let the nodes in"
        yield judged(item.id, "fsx:DescribeFileSystems", shown, wanted, ok=ok, todo=todo)
    linked = {link.bucket for lustre in storage.lustre for link in lustre.associations}
    for bucket in sorted(name for name in linked if name.startswith("s3://")):
        yield _bucket(context, bucket)


def _bucket(context: CheckContext, bucket: str) -> CheckResult:
    region, account = context.environment.region, context.environment.account
    try:
        answer = context.aws.call("s3", "head_bucket", Bucket=bucket[5:], ExpectedBucketOwner=account)
        found = str(answer.get("BucketRegion", region))
    except ClientError as error:
        words = {"404": "no such bucket", "403": "no access, or of another account", "301": "in another region"}
        found = words.get(code_of(error), code_of(error))
    todo = "correct the association's bucket, or grant s3:ListBucket on it"
    return judged(bucket, "s3:HeadBucket", found, region, ok=found == region, todo=todo)
