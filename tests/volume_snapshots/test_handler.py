"""The handler against botocore's model of FSx: each request and answer is checked against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from tests.stubs import stubbed
from volume_snapshots.handler import TAG, Event, name_at, rotate

if TYPE_CHECKING:
    from types_boto3_fsx.client import FSxClient

VOLUME = "fsvol-0123456789abcdef0"
EVENT: Event = {"volume_id": VOLUME, "keep": 2, "scheduled_time": "2026-01-05T06:00:00Z"}


def name(day: int) -> str:
    return f"scheduled-202601{day:02}T060000Z"


def snapshot(name: str, lifecycle: str = "AVAILABLE") -> dict[str, str]:
    return {"SnapshotId": f"fsvolsnap-{crc32(name.encode()):017x}", "Name": name, "Lifecycle": lifecycle}


@dataclass(frozen=True)
class Fsx:
    """A client, and the stub that holds what it may be asked."""

    client: FSxClient
    stub: Stubber

    def shows(self, snapshots: Mapping[str, str]) -> None:
        """`snapshots`: the lifecycle of each by its name."""
        found = [snapshot(*item) for item in snapshots.items()]
        asked = {"Filters": [{"Name": "volume-id", "Values": [VOLUME]}]}
        self.stub.add_response("describe_snapshots", {"Snapshots": found}, asked)

    def creates(self) -> None:
        asked = {"VolumeId": VOLUME, "Name": name(5), "ClientRequestToken": f"{VOLUME}-{name(5)}", "Tags": [TAG]}
        self.stub.add_response("create_snapshot", {"Snapshot": snapshot(name(5), "PENDING")}, asked)


@pytest.fixture
def fsx() -> Iterator[Fsx]:
    with stubbed("fsx") as (client, stub):
        yield Fsx(client, stub)


def available(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "AVAILABLE")


@pytest.mark.parametrize(
    ("existing", "deleted"),
    [
        ({}, []),
        (available(name(4)), []),
        (available(name(3), name(1), name(4), name(2)), [name(1), name(2), name(3)]),
        (available("before-upgrade", "scheduled-for-audit", name(1), name(2)), [name(1)]),
        ({name(1): "DELETING", name(2): "AVAILABLE"}, []),
    ],
    ids=["none", "few", "any order", "of people", "being deleted"],
)
def test_takes_a_snapshot_and_deletes_the_scheduled_ones_beyond_keep(
    fsx: Fsx, existing: dict[str, str], deleted: list[str]
) -> None:
    fsx.shows(existing)
    fsx.creates()
    for gone in deleted:
        fsx.stub.add_response("delete_snapshot", {}, {"SnapshotId": snapshot(gone)["SnapshotId"]})
    assert rotate(EVENT, fsx.client) == {"created": name(5), "deleted": deleted}


def test_second_delivery_of_an_event_makes_no_second_snapshot(fsx: Fsx) -> None:
    fsx.shows(available(name(4), name(5)))
    assert rotate(EVENT, fsx.client) == {"created": name(5), "deleted": []}


def test_nothing_is_deleted_when_no_snapshot_could_be_taken(fsx: Fsx) -> None:
    fsx.shows(available(name(1), name(2)))
    fsx.stub.add_client_error("create_snapshot", "ServiceLimitExceeded")
    with pytest.raises(ClientError, match="ServiceLimitExceeded"):
        rotate(EVENT, fsx.client)


@pytest.mark.parametrize("code", ["SnapshotNotFound", "AccessDeniedException"])
def test_deleting_a_snapshot_that_is_gone_succeeds_and_other_errors_are_raised(fsx: Fsx, code: str) -> None:
    fsx.shows(available(name(1), name(2), name(3)))
    fsx.creates()
    fsx.stub.add_client_error("delete_snapshot", code)
    fsx.stub.add_response("delete_snapshot", {}, {"SnapshotId": snapshot(name(2))["SnapshotId"]})
    if code == "SnapshotNotFound":
        assert rotate(EVENT, fsx.client)["deleted"] == [name(2)]
        return
    with pytest.raises(ClientError, match="AccessDenied"):
        rotate(EVENT, fsx.client)
    fsx.stub.assert_no_pending_responses()


def test_an_event_that_would_delete_all_is_refused(fsx: Fsx) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        rotate({**EVENT, "keep": 0}, fsx.client)


def test_the_name_is_the_scheduled_time_in_utc() -> None:
    assert name_at("2026-01-31T06:00:00Z") == "scheduled-20260131T060000Z"
    assert name_at("2026-01-31T06:00:00+02:00") == "scheduled-20260131T040000Z"
    with pytest.raises(ValueError, match="must name its zone"):
        name_at("2026-01-31T06:00:00")
