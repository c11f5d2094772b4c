"""The records of FSx and what every operation needs."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region
from ministack.services import ec2

FILE_SYSTEMS: Any = AccountRegionScopedDict()
ASSOCIATIONS: Any = AccountRegionScopedDict()
VOLUMES: Any = AccountRegionScopedDict()
SNAPSHOTS: Any = AccountRegionScopedDict()


class FsxError(Exception):
    """An error answer of the FSx API."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def new_id(prefix: str) -> str:
    """An id in FSx's form, e.g. fs- and 17 hexadecimal digits."""
    return f"{prefix}-{uuid.uuid4().hex[:17]}"


def arn(kind: str, *parts: str) -> str:
    """The ARN of an FSx resource of this account and region."""
    return f"arn:aws:fsx:{get_region()}:{get_account_id()}:{kind}/{'/'.join(parts)}"


def now() -> float:
    """The time in FSx's wire form, seconds since the epoch."""
    return round(datetime.datetime.now(datetime.UTC).timestamp(), 3)


def require(store: Any, key: str, code: str, kind: str) -> dict[str, Any]:
    """A record by id; raises FsxError when there is none."""
    record: dict[str, Any] | None = store.get(key)
    if record is None:
        raise FsxError(code, f"{kind} '{key}' does not exist.")
    return record


def file_system(key: str) -> dict[str, Any]:
    """A file system by id."""
    return require(FILE_SYSTEMS, key, "FileSystemNotFound", "File system")


def volume(key: str) -> dict[str, Any]:
    """A volume by id."""
    return require(VOLUMES, key, "VolumeNotFound", "Volume")


def tagged(resource_arn: str) -> dict[str, Any]:
    """The record that an ARN names."""
    for store in (FILE_SYSTEMS, ASSOCIATIONS, VOLUMES, SNAPSHOTS):
        for record in store.values():
            if record["ResourceARN"] == resource_arn:
                found: dict[str, Any] = record
                return found
    raise FsxError("ResourceNotFound", f"{resource_arn} does not exist.")


def subnet(key: str) -> dict[str, Any]:
    """A subnet by id."""
    record: dict[str, Any] | None = ec2._subnets.get(key)
    if record is None:
        raise FsxError("InvalidNetworkSettings", f"The subnet ID '{key}' does not exist")
    return record


def groups(ids: list[str], vpc_id: str) -> list[dict[str, Any]]:
    """The security groups of a file system, or its VPC's default group; all must be of that VPC."""
    found = []
    for group_id in ids or [ec2._vpcs[vpc_id]["DefaultSecurityGroupId"]]:
        record = ec2._security_groups.get(group_id)
        if record is None or record["VpcId"] != vpc_id:
            raise FsxError("InvalidNetworkSettings", f"The security group '{group_id}' is not of {vpc_id}")
        found.append(record)
    return found


def opens(record: dict[str, Any], port: int) -> bool:
    """Whether a security group lets TCP in on a port, from anywhere."""
    for rule in record["IpPermissions"]:
        protocol = str(rule.get("IpProtocol"))
        if protocol == "-1" or (protocol == "tcp" and int(rule["FromPort"]) <= port <= int(rule["ToPort"])):
            return True
    return False


def overlaps(one: str, other: str) -> bool:
    """Whether two directories are the same or one contains the other."""
    first, second = (path.rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)
