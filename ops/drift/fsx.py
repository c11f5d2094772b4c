"""Drift of FSx file systems, volumes and data repository associations.

CloudFormation does not compare AWS::FSx::FileSystem: its registry schema has no read handler. Volumes and associations
are compared here where CloudFormation did not compare them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.drift.compare import explicit, tags
from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.detection import subject
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.review.structure import Difference

if TYPE_CHECKING:
    from types_boto3_fsx import FSxClient

FILE_SYSTEM, VOLUME, ASSOCIATION = (
    "AWS::FSx::FileSystem",
    "AWS::FSx::Volume",
    "AWS::FSx::DataRepositoryAssociation",
)
KINDS = (FILE_SYSTEM, VOLUME, ASSOCIATION)

# Not in the answers of the Describe calls: the security groups belong to the network interfaces.
_UNREPORTED = {
    FILE_SYSTEM: ("BackupId", "SecurityGroupIds", "Tags"),
    VOLUME: ("BackupId", "Tags"),
    ASSOCIATION: ("S3", "Tags"),
}
_UNREPORTED_WITHIN = ("Options", "OriginSnapshot", "RootVolumeConfiguration")
_CONFIGURATIONS = ("LustreConfiguration", "OpenZFSConfiguration")
_ARN_OF_A_GROUP = 7
"""Parts of a log group's ARN, between colons."""
_GONE = ("FileSystemNotFound", "VolumeNotFound", "DataRepositoryAssociationNotFound")
_POLICIES = ("AutoImportPolicy", "AutoExportPolicy")
_FAILED = ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")


def check(client: FSxClient, stack: DeployedStack, values: Values, skip: Collection[str] = ()) -> Iterator[Finding]:
    """Differences in the FSx resources of a stack, except those whose logical ids are in `skip`.

    Raises:
        ClientError: FSx denies access.
    """
    for resource in stack.of(*KINDS):
        if resource.logical_id in skip:
            continue
        what = subject(resource.logical_id, resource.kind, resource.physical_id)
        record = _record(client, resource)
        if record is None or record.get("Lifecycle") == "DELETING":
            yield Finding(stack.name, what, "", "exists", "deleted")
            continue
        if record.get("Lifecycle") in _FAILED:
            yield Finding(stack.name, what, "Lifecycle", "AVAILABLE", record["Lifecycle"])
        for found in differences(resource, values.properties(resource, stack), record, stack.tags):
            yield Finding(stack.name, what, found.path, found.old, found.new)


def _record(client: FSxClient, resource: Resource) -> Mapping[str, Any] | None:
    if not resource.physical_id:
        return None
    key = [resource.physical_id]
    found: list[Any]
    try:
        if resource.kind == FILE_SYSTEM:
            found = list(client.describe_file_systems(FileSystemIds=key)["FileSystems"])
        elif resource.kind == VOLUME:
            found = list(client.describe_volumes(VolumeIds=key)["Volumes"])
        else:
            found = list(client.describe_data_repository_associations(AssociationIds=key)["Associations"])
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            return None
        raise
    return found[0] if found else None


def differences(
    resource: Resource, expected: Mapping[str, Any], record: Mapping[str, Any], stack_tags: Mapping[str, str]
) -> Iterator[Difference]:
    """Differences between the properties of a template and the service's record of the resource."""
    for key, wanted in expected.items():
        if key in _CONFIGURATIONS:
            inner = explicit(wanted, _of_group(record.get(key, {})), ignored=_UNREPORTED_WITHIN)
            yield from (Difference(f"{key}.{found.path}", found.old, found.new) for found in inner)
        elif key not in _UNREPORTED[resource.kind]:
            yield from explicit({key: wanted}, record)
    if resource.kind == ASSOCIATION:
        yield from _events(expected.get("S3", {}), record.get("S3", {}))
    given = {str(tag["Key"]): tag["Value"] for tag in expected.get("Tags", [])}
    yield from tags({**stack_tags, **given}, {tag["Key"]: tag["Value"] for tag in record.get("Tags", [])})


def _of_group(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings with the ARN of the log group, also where FSx reports its log stream in the group."""
    logs = settings.get("LogConfiguration") or {}
    if "Destination" not in logs:
        return settings
    group = ":".join(logs["Destination"].split(":")[:_ARN_OF_A_GROUP])
    return {**settings, "LogConfiguration": {**logs, "Destination": group}}


def _events(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    """Import and export policies; a missing policy equals one without events."""
    for policy in _POLICIES:
        wanted, found = (sorted(side.get(policy, {}).get("Events") or []) for side in (expected, actual))
        if wanted != found:
            yield Difference(f"S3.{policy}.Events", ", ".join(wanted) or "none", ", ".join(found) or "none")
