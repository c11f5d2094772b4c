"""The check of capacity reservations and capacity blocks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ops.preflight.checks import capacity
from ops.preflight.results import CheckResult, Verdict
from settings import Environment
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import (
    GROUP,
    NOW,
    RESERVATION,
    SECOND,
    Account,
    instance,
    reservation,
    results,
    unstarted_block,
)

OURS = instance("p5.48xlarge", cluster="small", CapacityReservationId=RESERVATION)
OTHERS = {**OURS, "Tags": []}


def reserved(kind: str = "odcr", **compute: Any) -> Environment:  # noqa: ANN401 - any key of a compute resource
    """Two p5.48xlarge from the reservation."""
    capacity = {"type": kind, "reservation": RESERVATION}
    return environment(cluster={"queues": [{"name": "gpu", "capacity": capacity, "compute": [{**GPU, **compute}]}]})


def by_attribute(account: Account, wanted: Environment) -> dict[str, CheckResult]:
    """Results by the attribute, which follows the colon of the subject."""
    return {found.subject.rpartition(": ")[2]: found for found in results(capacity.check, account, wanted)}


def test_good_reservation() -> None:
    found = by_attribute(Account(reservations=[reservation()]), reserved())
    assert set(found) == {"state", "kind", "instance type", "zone", "tenancy", "platform", "instances"}
    assert {result.verdict for result in found.values()} == {Verdict.OK}
    assert found["instances"].found == "2 of 2 free"


@pytest.mark.parametrize(
    ("attribute", "other", "advice"),
    [
        ("state", {"State": "expired"}, "buy or create another"),
        ("state", {"State": "pending"}, "wait"),
        ("state", {"State": "delayed"}, "wait"),
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
def test_fault_of_a_reservation(attribute: str, other: dict[str, Any], advice: str) -> None:
    found = by_attribute(Account(reservations=[reservation(**other)]), reserved())
    assert advice in found[attribute].todo
    assert [name for name, result in found.items() if result.verdict is Verdict.FAULT] == [attribute]


def test_missing_reservation() -> None:
    [missing] = results(capacity.check, Account(), reserved())
    assert missing.verdict is Verdict.FAULT
    assert RESERVATION in missing.subject and "no such reservation" in missing.found


@pytest.mark.parametrize(
    ("node", "verdict", "found"),
    [(OURS, Verdict.OK, "0 of 2 free, 2 used by this cluster"), (OTHERS, Verdict.FAULT, "0 of 2 free")],
)
def test_instances_of_our_own_nodes_are_not_missing(node: dict[str, Any], verdict: Verdict, found: str) -> None:
    account = Account(reservations=[reservation(AvailableInstanceCount=0)], instances=[node] * 2)
    result = by_attribute(account, reserved())["instances"]
    assert (result.verdict, result.found) == (verdict, found)


def test_queues_that_share_a_reservation_need_room_for_both() -> None:
    queue = {"capacity": {"type": "odcr", "reservation": RESERVATION}}
    queues = [{**queue, "name": f"q{most}", "compute": [{**GPU, "max": most}]} for most in (1, 2)]
    found = by_attribute(Account(reservations=[reservation()]), environment(cluster={"queues": queues}))
    assert found["instances"].verdict is Verdict.FAULT
    assert found["instances"].wanted.startswith("3,")


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"State": "scheduled", "StartDate": NOW + timedelta(days=3)}, "2026-11-24 12:00 UTC"),
        ({"EndDate": NOW + timedelta(hours=5)}, "active until 2026-11-21 17:00 UTC"),
    ],
    ids=["starts later", "ends within a day"],
)
def test_block_with_a_warning(block: dict[str, Any], shown: str) -> None:
    account = Account(reservations=[reservation(ReservationType="capacity-block", **block)])
    found = by_attribute(account, reserved("capacity-block", min=2))
    assert (found["state"].verdict, found["kind"].verdict) == (Verdict.WARNING, Verdict.OK)
    assert shown in found["state"].found


@pytest.mark.parametrize("state", ["scheduled", "pending", "payment-pending", "delayed"])
def test_block_that_has_not_started_has_its_size(state: str) -> None:
    wanted = reserved("capacity-block", min=2)
    found = by_attribute(Account(reservations=[unstarted_block(state)]), wanted)
    assert (found["state"].verdict, found["state"].found) == (Verdict.WARNING, f"{state}: starts 2026-11-24 12:00 UTC")
    assert (found["instances"].verdict, found["instances"].found) == (Verdict.OK, "2 of 2 free when the block starts")
    small = by_attribute(Account(reservations=[unstarted_block(state, 1)]), wanted)["instances"]
    assert (small.verdict, small.found) == (Verdict.FAULT, "1 of 1 free when the block starts")


def test_group_of_reservations() -> None:
    queue = {"name": "gpu", "capacity": {"type": "odcr", "reservation_group": GROUP}, "compute": [GPU]}
    grouped = environment(cluster={"queues": [queue]})
    one = reservation(TotalInstanceCount=1, AvailableInstanceCount=1)
    account = Account(
        reservations=[one, {**one, "CapacityReservationId": SECOND}], groups={GROUP: [RESERVATION, SECOND]}
    )
    good = results(capacity.check, account, grouped)
    assert [result.verdict for result in good] == [Verdict.OK, Verdict.OK]
    assert good[1].found == "2 of 2 free"

    account.reservations[1]["AvailabilityZoneId"] = "use1-az6"
    assert [result.verdict for result in results(capacity.check, account, grouped)] == [Verdict.WARNING, Verdict.FAULT]

    [missing] = results(capacity.check, Account(), grouped)
    assert missing.verdict is Verdict.FAULT and "no such group" in missing.found


def test_without_a_reservation_nothing_is_asked() -> None:
    account = Account()
    [result] = results(capacity.check, account, environment())
    assert result.verdict is Verdict.NOTE
    assert account.asked == {"cloudformation:ListStackResources"}
