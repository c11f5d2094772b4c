"""Drift of FSx file systems, volumes and data repository associations.

CloudFormation does not compare AWS::FSx::FileSystem: its registry schema has no read handler. Volumes and associations
are compared here where CloudFormation did not compare them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.findings import Finding
from ops.drift.values import Values, explicit, tags
from ops.review.structure import Difference

if TYPE_CHECKING:
    from types_boto3_fsx import FSxClient

FILE_SYSTEM, VOLUME, ASSOCIATION = ("AWS::FSx::FileSystem", "AWS::FSx::Volume", "AWS::FSx::DataRepositoryAssociation")
# Operation, its argument, and the key of its answer.
_CALLS = {
    FILE_SYSTEM: ("describe_file_systems", "FileSystemIds", "FileSystems"),
    VOLUME: ("describe_volumes", "VolumeIds", "Volumes"),
    ASSOCIATION: ("describe_data_repository_associations", "AssociationIds", "Associations"),
}
KINDS = tuple(_CALLS)

# Not in the answers: security groups belong to the network interfaces. Tags and S3 are compared apart.
_UNREPORTED = ("BackupId", "Options", "OriginSnapshot", "RootVolumeConfiguration", "S3", "SecurityGroupIds", "Tags")
_ARN_OF_A_GROUP = 7
"""Parts of a log group's ARN, between colons."""
_GONE = ("FileSystemNotFound", "VolumeNotFound", "DataRepositoryAssociationNotFound")
_FAILED = ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")


def check(client: FSxClient, stack: DeployedStack, values: Values, skip: Collection[str] = ()) -> Iterator[Finding]:
    """Differences in the FSx resources of a stack, except those whose logical ids are in `skip`. Raises ClientError."""
    for resource in stack.of(*KINDS):
        if resource.logical_id in skip:
            continue
        record = _record(client, resource) or {"Lifecycle": "DELETING"}
        lifecycle = record.get("Lifecycle")
        if lifecycle == "DELETING":
            yield Finding(stack.name, resource.subject, "", "exists", "deleted")
            continue
        if lifecycle in _FAILED:
            yield Finding(stack.name, resource.subject, "Lifecycle", "AVAILABLE", lifecycle)
        for found in differences(values.properties(resource, stack), record, stack.tags):
            yield Finding(stack.name, resource.subject, found.path, found.old, found.new)


def _record(client: FSxClient, resource: Resource) -> Mapping[str, Any] | None:
    if not resource.physical_id:
        return None
    operation, argument, key = _CALLS[resource.kind]
    try:
        found = getattr(client, operation)(**{argument: [resource.physical_id]})[key]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            return None
        raise
    return found[0] if found else None


def differences(
    expected: Mapping[str, Any], record: Mapping[str, Any], stack_tags: Mapping[str, str]
) -> Iterator[Difference]:
    """Differences between the properties of a template and the service's record of the resource."""
    yield from explicit(_reported(expected), {**record, "LustreConfiguration": _of_group(record)})
    for policy in ("AutoImportPolicy", "AutoExportPolicy"):
        # A missing policy equals one without events.
        sides = (side.get("S3", {}).get(policy, {}).get("Events") for side in (expected, record))
        wanted, found = (", ".join(sorted(events or [])) or "none" for events in sides)
        if wanted != found:
            yield Difference(f"S3.{policy}.Events", wanted, found)
    given = {str(tag["Key"]): tag["Value"] for tag in expected.get("Tags", [])}
    yield from tags({**stack_tags, **given}, {tag["Key"]: tag["Value"] for tag in record.get("Tags", [])})


def _reported(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _reported(value) if isinstance(value, Mapping) else value
        for key, value in properties.items()
        if key not in _UNREPORTED
    }


def _of_group(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of Lustre with the ARN of the log group, also where FSx reports its log stream in the group."""
    settings: Mapping[str, Any] = record.get("LustreConfiguration") or {}
    logs = settings.get("LogConfiguration") or {}
    if "Destination" not in logs:
        return settings
    group = ":".join(logs["Destination"].split(":")[:_ARN_OF_A_GROUP])
    return {**settings, "LogConfiguration": {**logs, "Destination": group}}
