"""Where data sets and checkpoints of an environment are: buckets, prefixes and folders on the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.aws.stacks import existing
from ops.problem import Problem
from settings.stacks import stack_name

if TYPE_CHECKING:
    import boto3

    from settings import Environment

_LOGICAL_IDS = {"data": "BucketsData", "checkpoints": "BucketsCheckpoints"}
"""Beginning of the buckets' logical ids in the storage stack (constructs/trainyard/buckets.py)."""
_MOST_IDS = 50
"""Of one DescribeDataRepositoryAssociations."""


@dataclass(frozen=True)
class Link:
    """A folder on the nodes that an association links to a prefix of a bucket."""

    folder: str
    bucket: str
    prefix: str
    imports: bool
    exports: bool

    @property
    def uri(self) -> str:
        """The prefix as s3://."""
        return f"s3://{self.bucket}/{self.prefix}"


def buckets(session: boto3.Session, environment: Environment) -> dict[str, str]:
    """The names of the environment's data and checkpoint buckets, by purpose.

    Raises:
        Problem: the storage stack does not exist or has no such bucket.
    """
    stack = stack_name(environment, "storage")
    try:
        resources = _resources(session, stack, "AWS::S3::Bucket")
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        resources = {}
    found = {
        purpose: next((name for logical, name in resources.items() if logical.startswith(beginning)), "")
        for purpose, beginning in _LOGICAL_IDS.items()
    }
    if missing := [purpose for purpose, name in found.items() if not name]:
        raise Problem(
            f"{environment.name} has no {' and no '.join(missing)} bucket: the stack {stack} is not deployed. Deploy "
            f"it: trainyard up {environment.name}, on AWS with --on aws"
        )
    return found


def links(environment: Environment, names: dict[str, str]) -> list[Link]:
    """The associations of the environment file, with the buckets' names."""
    return [
        Link(
            f"{lustre.mount}{association.path}".rstrip("/"),
            names.get(association.bucket, association.bucket.removeprefix("s3://")),
            association.prefix,
            bool(association.import_events),
            bool(association.export_events),
        )
        for lustre in environment.storage.lustre
        for association in lustre.associations
    ]


def for_data(environment: Environment, found: Sequence[Link], bucket: str, folder: str | None) -> Link:
    """The association that data sets are pushed through: the one of `folder`, or the only one that imports.

    Args:
        bucket: the data bucket, which wins where several associations import.

    Raises:
        Problem: there is none, or several.
    """
    importing = [link for link in found if link.imports and (folder is None or link.folder == folder.rstrip("/"))]
    preferred = [link for link in importing if link.bucket == bucket] or importing
    if len({link.uri for link in preferred}) == 1:
        return preferred[0]
    known = ", ".join(sorted(link.folder for link in found if link.imports)) or "none"
    if not preferred:
        given = f"{folder} is not one" if folder else "there is none"
        raise Problem(
            f"Data sets reach the cluster through an association that imports, and {given}. In the file of "
            f"{environment.name}: {known}. Add one to storage.lustre[].associations, with bucket: data."
        )
    raise Problem(f"Several folders of {environment.name} import from S3: {known}. Choose one: --folder FOLDER")


def state(session: boto3.Session, environment: Environment, bucket: str, key: str) -> str:
    """What FSx reports on the association of an object, as a sentence."""
    ids = list(
        _resources(session, stack_name(environment, "data-links"), "AWS::FSx::DataRepositoryAssociation").values()
    )
    for one in associations(session.client("fsx"), ids):
        if f"s3://{bucket}/{key}".startswith(one["DataRepositoryPath"].rstrip("/") + "/"):
            details = one.get("FailureDetails", {}).get("Message", "")
            exported = one.get("S3", {}).get("AutoExportPolicy", {}).get("Events", [])
            return (
                f"The association of {one['FileSystemPath']} in {one['FileSystemId']} with {one['DataRepositoryPath']}"
                f" is {one['Lifecycle']}, and exports {', '.join(exported).lower() or 'nothing'} automatically."
                + (f" FSx reports: {details}" if details else "")
            )
    return f"No deployed association exports to s3://{bucket}/{key}."


def associations(fsx: Any, ids: Sequence[str]) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - a boto3 client
    """Associations as FSx describes them.

    A request takes 50 ids and a response has 25 associations (API reference); botocore has no paginator for them.
    """
    for first in range(0, len(ids), _MOST_IDS):
        request: dict[str, Any] = {"AssociationIds": ids[first : first + _MOST_IDS]}
        while request:
            page = fsx.describe_data_repository_associations(**request)
            yield from page["Associations"]
            request = {**request, "NextToken": page["NextToken"]} if page.get("NextToken") else {}


def _resources(session: boto3.Session, stack: str, kind: str) -> dict[str, str]:
    """Physical ids by logical id."""
    found = existing(session, stack)
    return {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in found if item["ResourceType"] == kind}
