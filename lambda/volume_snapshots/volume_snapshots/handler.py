"""Lambda handler: takes one snapshot of one volume, then deletes the expired ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict

import boto3
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from types_boto3_fsx.client import FSxClient
    from types_boto3_fsx.type_defs import TagTypeDef

# The role may only delete snapshots with this tag.
TAG: TagTypeDef = {"Key": "trainyard:scheduled-snapshot", "Value": "true"}
_SCHEDULED = re.compile(r"^scheduled-\d{8}T\d{6}Z$")


class Event(TypedDict):
    """The schedule's input. `keep`: the number of scheduled snapshots to keep, at least 1."""

    volume_id: str
    keep: int
    scheduled_time: str


class Outcome(TypedDict):
    """The names of the snapshots, for the log."""

    created: str
    deleted: list[str]


def handler(event: Event, context: object) -> Outcome:  # noqa: ARG001 - the signature is Lambda's
    return rotate(event, boto3.client("fsx"))


def rotate(event: Event, fsx: FSxClient) -> Outcome:
    """Take a snapshot, then delete the scheduled ones beyond the newest `keep`. Never one that a person made.

    Raises:
        ValueError: the event would delete all snapshots.
        ClientError: FSx refused a call; the schedule tries again.
    """
    volume_id, keep = event["volume_id"], event["keep"]
    if keep < 1:
        raise ValueError(f"keep is {keep}: at least 1 snapshot must stay.")
    name = name_at(event["scheduled_time"])
    pages = fsx.get_paginator("describe_snapshots").paginate(Filters=[{"Name": "volume-id", "Values": [volume_id]}])
    existing = [item for page in pages for item in page["Snapshots"]]
    if all(item.get("Name") != name for item in existing):
        # FSx refuses a token that comes again for another volume (CreateSnapshot).
        token = f"{volume_id}-{name}"
        made = fsx.create_snapshot(VolumeId=volume_id, Name=name, ClientRequestToken=token, Tags=[TAG])
        existing.append(made["Snapshot"])
    scheduled = {
        item["Name"]: item["SnapshotId"]
        for item in existing
        if _SCHEDULED.match(item.get("Name", "")) and item.get("Lifecycle") != "DELETING"
    }
    deleted: list[str] = []
    refused: list[ClientError] = []
    for expired in sorted(scheduled)[:-keep]:
        try:
            if _delete(fsx, scheduled[expired]):
                deleted.append(expired)
        except ClientError as error:  # a volume may be a clone of this one; the others expire all the same
            refused.append(error)
    if refused:
        raise refused[0]
    return {"created": name, "deleted": deleted}


def name_at(scheduled_time: str) -> str:
    """Name of the snapshot of a scheduled time (ISO 8601), as users see it under `.zfs/snapshot`.

    The scheduled time, not the clock, gives the name, so that a retry makes the same snapshot. Raises ValueError for a
    time that cannot be parsed or has no zone.
    """
    time = datetime.fromisoformat(scheduled_time)
    if time.tzinfo is None:
        raise ValueError(
            f"scheduled_time is {scheduled_time!r}: it must name its zone, for example 2026-01-31T06:00:00Z."
        )
    return f"scheduled-{time.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _delete(fsx: FSxClient, snapshot: str) -> bool:
    """False if it was gone already."""
    try:
        fsx.delete_snapshot(SnapshotId=snapshot)
    except ClientError as error:
        if error.response["Error"]["Code"] != "SnapshotNotFound":
            raise
        return False
    return True
