"""Which FSx resource a request is about, for IAM: without it a policy that names resources would never match."""

from __future__ import annotations

import json
from typing import Any

from ministack.core import iam_actions
from ministack.services import tagging

from local.emulator.fsx import store

# The key of a request that names its resource, and where the record is; the first that is there counts. For
# CreateSnapshot that is the volume; the snapshot to come, which AWS asks for too, has no id yet.
_NAMED = (
    ("SnapshotId", store.SNAPSHOTS),
    ("AssociationId", store.ASSOCIATIONS),
    ("VolumeId", store.VOLUMES),
    ("FileSystemId", store.FILE_SYSTEMS),
)
# What creates a resource is authorized on every resource of its kind.
_CREATED = {"CreateFileSystem": "file-system/*", "CreateVolume": "volume/*"}


def resource(operation: str, request: dict[str, Any], region: str, account: str) -> str:
    """The ARN that a request is authorized on, or * for operations that know no resources."""
    prefix = f"arn:aws:fsx:{region}:{account}:"
    if operation in _CREATED:
        return prefix + _CREATED[operation]
    if request.get("ResourceARN"):
        return str(request["ResourceARN"])
    for key, records in _NAMED:
        if isinstance(request.get(key), str):
            record = records.get(request[key])
            return str(record["ResourceARN"]) if record else f"{prefix}*/{request[key]}"
    return "*"


def install() -> None:
    """Answer for FSx, with its tags for aws:ResourceTag; every other service stays with ministack."""
    original = iam_actions.extract_resource_arn

    def extract(service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if service != "fsx":
            return original(service, method, path, headers, body, *rest)
        try:
            request = json.loads(body or b"{}")
        except json.JSONDecodeError:
            return "*"
        _query, region, account = rest
        return resource(headers.get("x-amz-target", "").rpartition(".")[2], request, region, account)

    iam_actions.extract_resource_arn = extract
    tags_elsewhere = tagging.resource_tags

    def tags(resource_arn: str) -> Any:
        if not resource_arn.startswith("arn:aws:fsx:"):
            return tags_elsewhere(resource_arn)
        try:
            return {tag["Key"]: tag["Value"] for tag in store.tagged(resource_arn)["Tags"]}
        except store.FsxError:
            return {}

    tagging.resource_tags = tags
