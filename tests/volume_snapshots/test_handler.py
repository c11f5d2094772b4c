"""The handler against botocore's own model of FSx: each request and answer is checked against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from volume_snapshots.handler import TAG, Event, rotate

if TYPE_CHECKING:
    from types_boto3_fsx.client import FSxClient

VOLUME = "fsvol-0123456789abcdef0"
EVENT: Event = {"volume_id": VOLUME, "keep": 2, "scheduled_time": "2026-01-03T06:00:00Z"}
NAME = "scheduled-20260103T060000Z"


@dataclass(frozen=True)
class Fsx:
    """A client, and the stub that holds what it may be asked."""

    client: FSxClient
    stub: Stubber


def described(*days: int) -> dict[str, Any]:
    return {
        "Snapshots": [
            {
                "SnapshotId": f"fsvolsnap-{day:017x}",
                "Name": f"scheduled-202601{day:02}T060000Z",
                "Lifecycle": "AVAILABLE",
            }
            for day in days
        ]
    }


@pytest.fixture
def fsx() -> Iterator[Fsx]:
    client = boto3.client("fsx", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        yield Fsx(client, stub)
        stub.assert_no_pending_responses()


def expect_describe(fsx: Fsx, *days: int) -> None:
    fsx.stub.add_response(
        "describe_snapshots", described(*days), {"Filters": [{"Name": "volume-id", "Values": [VOLUME]}]}
    )


def expect_create(fsx: Fsx) -> None:
    fsx.stub.add_response(
        "create_snapshot",
        {"Snapshot": {"SnapshotId": f"fsvolsnap-{3:017x}", "Name": NAME, "Lifecycle": "PENDING"}},
        {"VolumeId": VOLUME, "Name": NAME, "ClientRequestToken": NAME, "Tags": [TAG]},
    )


def test_takes_a_snapshot_and_deletes_the_oldest(fsx: Fsx) -> None:
    expect_describe(fsx, 1, 2)
    expect_create(fsx)
    fsx.stub.add_response("delete_snapshot", {}, {"SnapshotId": f"fsvolsnap-{1:017x}"})
    assert rotate(EVENT, fsx.client) == {"created": NAME, "deleted": ["scheduled-20260101T060000Z"]}


def test_second_delivery_of_an_event_makes_no_second_snapshot(fsx: Fsx) -> None:
    expect_describe(fsx, 2, 3)
    assert rotate(EVENT, fsx.client) == {"created": NAME, "deleted": []}


def test_nothing_is_deleted_when_no_snapshot_could_be_taken(fsx: Fsx) -> None:
    expect_describe(fsx, 1, 2)
    fsx.stub.add_client_error("create_snapshot", "ServiceLimitExceeded")
    with pytest.raises(ClientError, match="ServiceLimitExceeded"):
        rotate(EVENT, fsx.client)


def test_a_snapshot_that_is_gone_already_is_no_fault(fsx: Fsx) -> None:
    expect_describe(fsx, 1, 2)
    expect_create(fsx)
    fsx.stub.add_client_error("delete_snapshot", "SnapshotNotFound")
    assert rotate(EVENT, fsx.client)["deleted"] == []


def test_a_refused_deletion_is_a_fault(fsx: Fsx) -> None:
    expect_describe(fsx, 1, 2)
    expect_create(fsx)
    fsx.stub.add_client_error("delete_snapshot", "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        rotate(EVENT, fsx.client)


def test_an_event_that_would_delete_all_is_refused(fsx: Fsx) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        rotate({**EVENT, "keep": 0}, fsx.client)
