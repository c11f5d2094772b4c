"""The records of FSx and what every operation needs."""

from __future__ import annotations

import time
import uuid
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region
from ministack.services import ec2

from local.emulator.service import ApiError

Record = dict[str, Any]

FILE_SYSTEMS: Any = AccountRegionScopedDict()
ASSOCIATIONS: Any = AccountRegionScopedDict()
VOLUMES: Any = AccountRegionScopedDict()
SNAPSHOTS: Any = AccountRegionScopedDict()

_ERRORS = {
    "FileSystemId": (FILE_SYSTEMS, "FileSystemNotFound"),
    "AssociationId": (ASSOCIATIONS, "DataRepositoryAssociationNotFound"),
    "VolumeId": (VOLUMES, "VolumeNotFound"),
    "SnapshotId": (SNAPSHOTS, "SnapshotNotFound"),
}


def new_id(prefix: str) -> str:
    """An id in FSx's form, e.g. fs- and 17 hexadecimal digits."""
    return f"{prefix}-{uuid.uuid4().hex[:17]}"


def record(kind: str, request: Record, path: str, **members: Any) -> Record:
    """The members that every resource has, and its own; `path` is the part of its ARN after fsx:region:account:."""
    return {
        "Lifecycle": "AVAILABLE",
        "CreationTime": round(time.time(), 3),
        "ResourceARN": f"arn:aws:fsx:{get_region()}:{get_account_id()}:{kind}/{path}",
        "Tags": request.get("Tags", []),
        **members,
    }


def get(key: str, identifier: str) -> Record:
    """The record with an id; `key` is FileSystemId, AssociationId, VolumeId or SnapshotId.

    Raises:
        ApiError: it does not exist.
    """
    records, code = _ERRORS[key]
    found: Record | None = records.get(identifier)
    if found is None:
        raise ApiError(code, f"{key.removesuffix('Id')} '{identifier}' does not exist.")
    return found


def tagged(resource_arn: str) -> Record:
    """The record that an ARN names; raises ApiError where it does not exist."""
    for records, _code in _ERRORS.values():
        for found in records.values():
            if found["ResourceARN"] == resource_arn:
                existing: Record = found
                return existing
    raise ApiError("ResourceNotFound", f"{resource_arn} does not exist.")


def groups(ids: list[str], vpc_id: str) -> list[Record]:
    """The security groups of a file system, or its VPC's default group; all must be of that VPC."""
    found = []
    for group_id in ids or [ec2._vpcs[vpc_id]["DefaultSecurityGroupId"]]:
        group = ec2._security_groups.get(group_id)
        if group is None or group["VpcId"] != vpc_id:
            raise ApiError("InvalidNetworkSettings", f"The security group '{group_id}' is not of {vpc_id}")
        found.append(group)
    return found
