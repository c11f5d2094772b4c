"""Reservations and blocks, good and bad."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ops.preflight.checks import capacity
from ops.preflight.results import CheckResult, Verdict
from settings import Environment
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import NOW, RESERVATION, Account, context, instance, reservation

GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/odcr"


def reserved(kind: str = "odcr", **compute: Any) -> Environment:  # noqa: ANN401 - any key of a compute resource
    """Two p5.48xlarge from the reservation."""
    return environment(
        cluster={
            "queues": [
                {
                    "name": "gpu",
                    "capacity": {"type": kind, "reservation": RESERVATION},
                    "compute": [{**GPU, **compute}],
                }
            ]
        }
    )


def lines(account: Account, wanted: Environment) -> dict[str, CheckResult]:
    """The lines by what they are about, after the colon."""
    found = list(capacity.check(context(account, wanted)))
    return {line.subject.rpartition(": ")[2]: line for line in found}


def test_a_good_reservation_is_ok_in_every_respect() -> None:
    found = lines(Account(reservations=[reservation()]), reserved())
    assert set(found) == {"state", "kind", "instance type", "zone", "tenancy", "platform", "instances"}
    assert {line.verdict for line in found.values()} == {Verdict.OK}
    assert found["instances"].found == "2 of 2 free"


@pytest.mark.parametrize(
    ("what", "other", "said"),
    [
        ("state", {"State": "expired"}, "buy or create another"),
        ("state", {"State": "pending"}, "wait"),
        ("state", {"EndDate": NOW - timedelta(hours=1)}, "has ended"),
        ("kind", {"ReservationType": "capacity-block"}, "capacity.type"),
        ("instance type", {"InstanceType": "p5e.48xlarge"}, "type"),
        ("zone", {"AvailabilityZoneId": "use1-az6"}, "network.zone"),
        ("tenancy", {"Tenancy": "dedicated"}, "default tenancy"),
        ("platform", {"InstancePlatform": "Windows"}, "Linux/UNIX"),
        ("instances", {"AvailableInstanceCount": 1}, "terminate other"),
        ("instances", {"TotalInstanceCount": 1, "AvailableInstanceCount": 1}, "enlarge the reservation to 2"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_named(what: str, other: dict[str, Any], said: str) -> None:
    found = lines(Account(reservations=[reservation(**other)]), reserved())
    assert found[what].verdict is Verdict.FAULT
    assert said in found[what].todo
    assert [name for name, line in found.items() if line.verdict is Verdict.FAULT] == [what]


def test_a_reservation_that_is_not_there() -> None:
    [line] = capacity.check(context(Account(), reserved()))
    assert line.verdict is Verdict.FAULT
    assert RESERVATION in line.subject
    assert "no such reservation" in line.found


def test_what_our_own_nodes_hold_is_ours() -> None:
    nodes = [instance("p5.48xlarge", cluster="small", CapacityReservationId=RESERVATION)] * 2
    found = lines(Account(reservations=[reservation(AvailableInstanceCount=0)], instances=nodes), reserved())
    assert found["instances"].verdict is Verdict.OK
    assert found["instances"].found == "0 of 2 free, 2 used by this cluster"
    others = [instance("p5.48xlarge", cluster="another", CapacityReservationId=RESERVATION)] * 2
    found = lines(Account(reservations=[reservation(AvailableInstanceCount=0)], instances=others), reserved())
    assert found["instances"].verdict is Verdict.FAULT


def test_queues_that_share_a_reservation_need_room_for_both() -> None:
    queue = {"capacity": {"type": "odcr", "reservation": RESERVATION}}
    shared = environment(
        cluster={
            "queues": [
                {**queue, "name": "one", "compute": [{**GPU, "max": 1}]},
                {**queue, "name": "two", "compute": [{**GPU, "max": 2}]},
            ]
        }
    )
    found = lines(Account(reservations=[reservation()]), shared)
    assert found["instances"].verdict is Verdict.FAULT
    assert found["instances"].wanted.startswith("3,")


def test_a_block_that_starts_later_is_a_warning_with_its_start() -> None:
    later = reservation(
        ReservationType="capacity-block",
        State="scheduled",
        StartDate=NOW + timedelta(days=3),
        EndDate=NOW + timedelta(days=10),
    )
    found = lines(Account(reservations=[later]), reserved("capacity-block", min=2))
    assert found["state"].verdict is Verdict.WARNING
    assert "2026-11-24 12:00 UTC" in found["state"].found
    assert found["kind"].verdict is Verdict.OK


def test_a_block_that_ends_within_a_day_is_a_warning() -> None:
    soon = reservation(ReservationType="capacity-block", EndDate=NOW + timedelta(hours=5))
    found = lines(Account(reservations=[soon]), reserved("capacity-block", min=2))
    assert found["state"].verdict is Verdict.WARNING


def grouped() -> Environment:
    """Two p5.48xlarge from a group of reservations."""
    return environment(
        cluster={
            "queues": [
                {"name": "gpu", "capacity": {"type": "odcr", "reservation_group": GROUP}, "compute": [GPU]},
            ]
        }
    )


def test_a_group_is_as_good_as_its_reservations() -> None:
    one = reservation(TotalInstanceCount=1, AvailableInstanceCount=1)
    two = {**one, "CapacityReservationId": "cr-0123456789abcdef1"}
    names = [RESERVATION, "cr-0123456789abcdef1"]
    good = list(capacity.check(context(Account(reservations=[one, two], groups={GROUP: names}), grouped())))
    assert [line.verdict for line in good] == [Verdict.OK, Verdict.OK]
    assert good[1].found == "2 of 2 free"

    other = {**two, "AvailabilityZoneId": "use1-az6"}
    bad = list(capacity.check(context(Account(reservations=[one, other], groups={GROUP: names}), grouped())))
    assert [line.verdict for line in bad] == [Verdict.WARNING, Verdict.FAULT]

    [missing] = capacity.check(context(Account(), grouped()))
    assert missing.verdict is Verdict.FAULT
    assert "no such group" in missing.found


def test_without_a_reservation_nothing_is_asked() -> None:
    account = Account()
    [line] = capacity.check(context(account, environment()))
    assert line.verdict is Verdict.NOTE
    assert account.asked == {"cloudformation:ListStackResources"}
