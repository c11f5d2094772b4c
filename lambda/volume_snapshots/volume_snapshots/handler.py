"""Lambda handler: takes one snapshot of one volume, then deletes the expired ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import boto3
from botocore.exceptions import ClientError

from volume_snapshots.rotation import Snapshot, expired, name_at

if TYPE_CHECKING:
    from types_boto3_fsx.client import FSxClient
    from types_boto3_fsx.type_defs import TagTypeDef

# The role may only delete snapshots with this tag.
TAG: TagTypeDef = {"Key": "trainyard:scheduled-snapshot", "Value": "true"}


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
    """Take a snapshot, then delete the expired ones.

    Raises:
        ValueError: the event would delete all snapshots.
        ClientError: FSx refused a call; the schedule tries again.
    """
    volume_id, keep = event["volume_id"], event["keep"]
    if keep < 1:
        raise ValueError(f"keep is {keep}: at least 1 snapshot must stay.")
    name = name_at(event["scheduled_time"])
    existing = _snapshots(fsx, volume_id)
    if all(snapshot.name != name for snapshot in existing):
        made = fsx.create_snapshot(VolumeId=volume_id, Name=name, ClientRequestToken=name, Tags=[TAG])["Snapshot"]
        existing.append(Snapshot(made["SnapshotId"], name, made["Lifecycle"]))
    deleted = []
    for snapshot in expired(existing, keep):
        if _delete(fsx, snapshot):
            deleted.append(snapshot.name)
    return {"created": name, "deleted": deleted}


def _snapshots(fsx: FSxClient, volume_id: str) -> list[Snapshot]:
    pages = fsx.get_paginator("describe_snapshots").paginate(Filters=[{"Name": "volume-id", "Values": [volume_id]}])
    return [
        Snapshot(item["SnapshotId"], item.get("Name", ""), item.get("Lifecycle", ""))
        for page in pages
        for item in page["Snapshots"]
    ]


def _delete(fsx: FSxClient, snapshot: Snapshot) -> bool:
    try:
        fsx.delete_snapshot(SnapshotId=snapshot.id)
    except ClientError as error:
        if error.response["Error"]["Code"] != "SnapshotNotFound":
            raise
        return False
    return True
