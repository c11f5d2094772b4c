"""`trainyard down --on aws`: what is deleted, what is kept and goes on costing, and the removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.aws import stacks
from ops.aws.deployment import Target, confirm, require_answer
from ops.cost.estimate import dollars, file_system_label
from ops.cost.prices import Prices
from ops.preflight.aws import Denied, require_account
from ops.problem import Problem
from ops.review.data_loss import EMPTIED
from ops.review.stacks import EMPTY, template

if TYPE_CHECKING:
    import boto3

    from settings import Environment

_WITH_DATA = (
    *("AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::FSx::Volume", "AWS::ECR::Repository"),
    "AWS::RDS::DBCluster",
)
_KEPT = ("Retain", "RetainExceptOnCreate", "Snapshot")
_FREE = ("AWS::EC2::", "AWS::IAM::")
"""Kept with a file system that uses them; they cost nothing."""


@dataclass(frozen=True)
class Holding:
    """A deployed resource that holds data, or that outlives its stack.

    Attributes:
        kept: whether it outlives its stack.
        emptied: whether the stack empties the bucket before it deletes it.
    """

    type: str
    id: str
    kept: bool
    emptied: bool


def holdings(account: boto3.Session, environment: Environment) -> list[Holding]:
    """Every resource of the environment that holds data or is retained."""
    client = account.client("cloudformation")
    found = []
    for stack in _own(account, environment):
        if stack["StackStatus"] in EMPTY:
            continue
        name = stack["StackName"]
        declared: Mapping[str, Any] = template(client, name).get("Resources", {})
        for item in stacks.existing(account, name):
            resource = declared.get(item["LogicalResourceId"], {})
            kept = resource.get("DeletionPolicy", "Delete") in _KEPT
            emptied = EMPTIED in resource.get("Properties", {}).get("Tags", ())
            if kept or item["ResourceType"] in _WITH_DATA:
                found.append(Holding(item["ResourceType"], item["PhysicalResourceId"], kept, emptied))
    return found


def down(target: Target, *, yes: bool, delete_data: bool) -> None:
    """Say what is deleted and kept, ask once, remove the stacks, and list what remains.

    Raises:
        Problem: nobody confirmed, a bucket that the removal would have to delete holds data and `delete_data` is
            False, the removal failed, or stacks are left.
    """
    environment, account, console = target.environment, target.account, target.console
    require_account(target.aws, environment)
    require_answer(yes=yes)
    stacks.require_own(account, environment)
    stacks.settle(account, environment, console, stacks.SETTLE_ON_AWS_S)
    existing = _own(account, environment)
    if not existing:
        console.print(f"Nothing of {environment.name!r} is deployed in {environment.account}, {environment.region}.")
        return
    held = holdings(account, environment)
    prices = Prices(environment.region)
    systems = _file_systems(target, held)
    console.print(f"Stacks that are removed: {', '.join(stack['StackName'] for stack in existing)}")
    protected = [stack["StackName"] for stack in existing if stack.get("EnableTerminationProtection")]
    if protected:
        console.print(f"Termination protection is switched off for: {', '.join(protected)}")
    for item in held:
        if not item.kept:
            console.print(f"[red]Deleted, with its data:[/red] {_described(item, systems, prices)}")
            if systems.get(item.id, {}).get("FileSystemType") == "OPENZFS":
                console.print("  FSx takes a final backup of it, which is kept and costs money until you delete it.")
    _show_kept(target, held, systems, prices, "Kept by the file's `retention`, and still charged")
    full = _buckets_with_data(target, held)
    if full and not delete_data:
        listed = "\n".join(f"  s3://{name}: for example {key}" for name, key in full.items())
        raise Problem(
            f"Nothing was changed: S3 deletes no bucket with objects or old versions of objects, and these have some:\n"
            f"{listed}\nCopy what you need, then: trainyard down {target.name} --on aws --delete-data"
        )
    question = f"Remove {environment.name} from account {environment.account} in {environment.region}?"
    confirm(question, environment.name, yes=yes)
    stacks.allow_deletion(account, environment)
    if full:
        # First what writes to the buckets, and what imports deletions from them into a file system that is kept.
        console.print("Removing with the CDK CLI: cdk destroy cluster data-links")
        _destroy(target, "cluster", "data-links", "--exclusively")
        for name in full:
            stacks.empty_bucket(account, name)
            console.print(f"Emptied s3://{name}")
    console.print("Removing with the CDK CLI: cdk destroy --all, dependants first")
    _destroy(target, "--all")
    if left := [f"{stack['StackName']} ({stack['StackStatus']})" for stack in _own(account, environment)]:
        raise Problem(
            f"The CDK CLI reported no error, but these stacks still exist: {', '.join(left)}\n"
            f"Its output: {target.log}\nRun it again: trainyard down {target.name} --on aws"
        )
    console.print("[green]Removed.[/green]")
    _show_kept(target, held, systems, prices, "What remains, and costs")
    for backup in _backups(target, systems):
        console.print(f"  FSx backup {backup['BackupId']} of {backup['FileSystem']['FileSystemId']}: by its size")
    console.print("  the account's bootstrap stack CDKToolkit, and ParallelCluster's bucket parallelcluster-*: by size")
    console.print('How to delete what remains: docs/aws.md, "Remove everything"', highlight=False)


def _destroy(target: Target, *what: str) -> None:
    done = target.run("destroy", *what, "--force", *target.removal)
    if done.code:
        raise target.failure("The removal failed; what is left can be removed by running it again", done)


def _own(account: boto3.Session, environment: Environment) -> list[dict[str, Any]]:
    # A nested stack goes with its parent. The roles of a promotion are the pipeline's.
    return [
        stack
        for stack in stacks.stacks_of(account, environment)
        if "ParentId" not in stack and not stacks.is_promotion(stack, environment)
    ]


def _show_kept(target: Target, held: Sequence[Holding], systems: Mapping[str, Any], prices: Prices, title: str) -> None:
    kept = [item for item in held if item.kept and not item.type.startswith(_FREE)]
    target.console.print(f"{title}:" if kept else f"{title}: nothing of the environment's stacks")
    for item in kept:
        target.console.print(f"  {_described(item, systems, prices)}")
    monthly = [prices.file_system(systems[item.id]) for item in kept if item.id in systems]
    if known := [price for price in monthly if price is not None]:
        target.console.print(f"  [bold]{dollars(sum(known))} a month[/bold] for file systems with a known price")


def _described(item: Holding, systems: Mapping[str, Any], prices: Prices) -> str:
    kind = item.type.split("::", 1)[1].replace("::", " ")
    if item.id not in systems:
        by_size = "" if item.type == "AWS::FSx::Volume" else ": charged by its size"
        return f"{kind} {item.id}{by_size}"
    price = prices.file_system(systems[item.id])
    monthly = dollars(price) if price is None else f"{dollars(price)} a month"
    return f"{kind} {item.id}, {file_system_label(systems[item.id])}: {monthly}"


def _file_systems(target: Target, held: Sequence[Holding]) -> dict[str, dict[str, Any]]:
    wanted = {item.id for item in held if item.type == "AWS::FSx::FileSystem"}
    found = target.aws.items("fsx", "describe_file_systems", "FileSystems") if wanted else ()
    return {item["FileSystemId"]: item for item in found if item["FileSystemId"] in wanted}


def _backups(target: Target, systems: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if systems:
        filters = [{"Name": "file-system-id", "Values": sorted(systems)}]
        try:
            yield from target.aws.items("fsx", "describe_backups", "Backups", Filters=filters)
        except (Denied, ClientError) as error:
            target.console.print(f"  FSx backups of {', '.join(systems)} cannot be listed: {error}")


def _buckets_with_data(target: Target, held: Sequence[Holding]) -> dict[str, str]:
    """The buckets that the removal can delete only if they are empty, and are not, each with a key in it."""
    client = target.account.client("s3")
    names = [item.id for item in held if item.type == "AWS::S3::Bucket" and not item.kept and not item.emptied]
    found = {}
    for name in names:
        try:
            page = client.list_object_versions(Bucket=name, MaxKeys=1)
        except client.exceptions.NoSuchBucket:  # deleted by hand
            continue
        if items := [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            found[name] = str(items[0].get("Key"))
    return found
