"""Names and rotation of scheduled snapshots."""

import pytest

from volume_snapshots.rotation import Snapshot, expired, name_at


def snapshot(name: str, lifecycle: str = "AVAILABLE") -> Snapshot:
    return Snapshot(f"fsvolsnap-{name}", name, lifecycle)


def scheduled(day: int, lifecycle: str = "AVAILABLE") -> Snapshot:
    return snapshot(f"scheduled-202601{day:02}T060000Z", lifecycle)


def test_name_tells_the_scheduled_time_in_utc() -> None:
    assert name_at("2026-01-31T06:00:00Z") == "scheduled-20260131T060000Z"
    assert name_at("2026-01-31T06:00:00+02:00") == "scheduled-20260131T040000Z"


def test_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="must name its zone"):
        name_at("2026-01-31T06:00:00")


def test_oldest_beyond_keep_expire_whatever_the_order() -> None:
    assert expired([scheduled(3), scheduled(1), scheduled(4), scheduled(2)], keep=2) == (scheduled(1), scheduled(2))


def test_nothing_expires_while_there_are_few() -> None:
    assert expired([scheduled(1), scheduled(2)], keep=2) == ()
    assert expired([], keep=2) == ()


def test_snapshots_of_people_neither_count_nor_expire() -> None:
    by_hand = [snapshot("before-upgrade"), snapshot("scheduled-for-audit")]
    assert expired([*by_hand, scheduled(1), scheduled(2)], keep=1) == (scheduled(1),)


def test_what_is_being_deleted_does_not_count() -> None:
    assert expired([scheduled(1, "DELETING"), scheduled(2), scheduled(3)], keep=2) == ()
