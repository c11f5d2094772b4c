"""The checks of quotas: what counts, and what is not counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from ops.preflight import families
from ops.preflight.checks import quotas, vcpus
from ops.preflight.families import FAMILIES, family_of
from ops.preflight.results import CheckResult, Verdict
from settings import Environment
from settings.instances import instance_types
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import (
    GROUP,
    RESERVATION,
    SECOND,
    Account,
    Answer,
    by_quota,
    instance,
    lustre,
    openzfs,
    reservation,
    results,
)

P, P5_SPOT, STANDARD = "L-417A185B", "L-C4BD4855", "L-1216C47A"
RAISED = {P: 384.0, P5_SPOT: 384.0, STANDARD: 64.0}
ODCR = {"capacity": {"type": "odcr", "reservation": RESERVATION}}
BLOCK = {"capacity": {"type": "capacity-block", "reservation": RESERVATION}, "compute": [{**GPU, "min": 2}]}


def gpu(**queue: Any) -> Environment:  # noqa: ANN401 - any key of a queue
    """Two p5.48xlarge, 192 vCPUs each, and a head node of 8."""
    return environment(cluster={"queues": [{"name": "gpu", "compute": [GPU], **queue}]})


def counted(wanted: Environment, **account: Any) -> dict[str, CheckResult]:  # noqa: ANN401 - any part
    """Results by the quota's code."""
    return by_quota(results(vcpus.check, Account(**{"quotas": RAISED, **account}), wanted))


def test_quota_that_is_just_large_enough() -> None:
    enough = counted(gpu())[P]
    assert enough.verdict is Verdict.OK
    assert "384 for 2 x p5.48xlarge (gpu)" in enough.wanted
    short = counted(gpu(), quotas={**RAISED, P: 383.0})[P]
    assert short.verdict is Verdict.FAULT
    assert "--region us-east-1 --service-code ec2 --quota-code L-417A185B --desired-value 384" in short.todo


SECOND_RESERVATION = reservation(CapacityReservationId=SECOND)


@pytest.mark.parametrize(
    ("account", "wanted"),
    [
        ({"instances": [instance("p5.48xlarge", cluster="small")] * 2}, 384),
        ({"instances": [instance("p4d.24xlarge")]}, 480),
        ({"instances": [instance("c7i.xlarge")]}, 384),
        ({"instances": [instance("p5.48xlarge", InstanceLifecycle="capacity-block")]}, 384),
        ({"instances": [instance("p5.48xlarge", InstanceLifecycle="spot")]}, 384),
        ({"reservations": [SECOND_RESERVATION]}, 768),
        ({"reservations": [{**SECOND_RESERVATION, "State": "expired"}]}, 384),
        ({"reservations": [{**SECOND_RESERVATION, "OwnerId": "999988887777"}]}, 384),
    ],
    ids=["our nodes", "another P", "another family", "a block", "spot", "idle", "expired", "another owner's"],
)
def test_others_that_count(account: dict[str, list[Answer]], wanted: int) -> None:
    result = counted(gpu(), **account)[P]
    assert result.wanted.startswith(f"{wanted} vCPUs: 384 for")
    assert result.verdict is (Verdict.OK if wanted == 384 else Verdict.FAULT)


def test_capacity_block_counts_towards_nothing() -> None:
    found = counted(gpu(**BLOCK))
    assert P not in found
    assert any(result.verdict is Verdict.NOTE and "capacity block" in result.wanted for result in found.values())


def test_spot_counts_towards_its_own_quota() -> None:
    spot = gpu(capacity={"type": "spot"})
    found = counted(spot)
    assert found[P5_SPOT].verdict is Verdict.OK
    assert P not in found
    used = counted(spot, instances=[instance("p5.48xlarge", InstanceLifecycle="spot")])
    assert used[P5_SPOT].verdict is Verdict.FAULT


@pytest.mark.parametrize(
    ("size", "free", "running", "state", "vcpus"),
    [
        (2, 2, 0, "active", 384),
        (2, 0, 2, "active", 384),
        (3, 3, 0, "active", 576),
        (3, 3, 0, "scheduled", 576),
        (3, 0, 0, "cancelled", 384),
    ],
    ids=["idle", "used", "large", "future-dated", "cancelled"],
)
def test_reservation_counts_once(size: int, free: int, running: int, state: str, vcpus: int) -> None:
    nodes = [instance("p5.48xlarge", cluster="small", CapacityReservationId=RESERVATION)] * running
    held = reservation(TotalInstanceCount=size, AvailableInstanceCount=free, State=state)
    found = counted(gpu(**ODCR), reservations=[held], instances=nodes)
    assert found[P].wanted.startswith(f"{vcpus} vCPUs")


def test_reservations_of_a_group_count_once() -> None:
    odcr = gpu(capacity={"type": "odcr", "reservation_group": GROUP})
    one = reservation(TotalInstanceCount=1, AvailableInstanceCount=1)
    two = {**one, "CapacityReservationId": SECOND}
    found = counted(odcr, reservations=[one, two], groups={GROUP: [RESERVATION, SECOND]})
    assert found[P].wanted == "384 vCPUs: 384 for 2 x p5.48xlarge (odcr)"
    assert counted(odcr)[P].wanted.startswith("384 vCPUs")  # without the group


def test_default_value_and_another_code() -> None:
    result = counted(gpu(), quotas={}, defaults={P: 0.0, STANDARD: 64.0})[P]
    assert (result.verdict, result.found) == (Verdict.FAULT, "0 vCPUs, the default")
    names = {"L-OTHER": "Running On-Demand P  Instances"}
    assert counted(gpu(), quotas={"L-OTHER": 500.0}, quota_names=names)["L-OTHER"].verdict is Verdict.OK
    assert counted(gpu(), quotas={STANDARD: 64.0})[P].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("p5.48xlarge", "p5"),
        ("p5en.48xlarge", "p5"),
        ("p4d.24xlarge", "p4"),
        ("p6-b200.48xlarge", "p6"),
        ("g6e.48xlarge", "g"),
        ("gr6.4xlarge", "g"),
        ("m7i.2xlarge", "m"),
        ("im4gn.large", "m"),
        ("hpc7a.96xlarge", "hpc"),
        ("u7i-12tb.224xlarge", "u"),
        ("trn2.48xlarge", "trn"),
        ("mac2.metal", "none"),
        ("p7.48xlarge", "none"),
    ],
)
def test_families(name: str, family: str) -> None:
    assert family_of(name) == FAMILIES.get(family)


def test_names_of_the_families_quotas() -> None:
    assert FAMILIES["p5"].spot and FAMILIES["p5"].spot.name == "All P5 Spot Instance Requests"
    assert FAMILIES["u"].on_demand.name == "Running On-Demand High Memory instances"
    assert FAMILIES["p6"].spot is None
    assert [name for name in instance_types() if family_of(name) is None] == []


def test_quota_of_an_unknown_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(families.FAMILIES, "p5")
    [result] = [one for one in counted(gpu()).values() if one.verdict is Verdict.UNKNOWN]
    assert result.found == "the quota of this type is unknown"
    assert "add its family to ops/preflight/families.py" in result.todo


# --- file systems ----------------------------------------------------------------------------------------------------
DEFAULTS = {
    "L-FD6F2F22": 100.0,
    "L-8F1B9C74": 100800.0,
    "L-9AFA1F09": 100.0,
    "L-C8640C82": 100800.0,
    "L-59D0763F": 100.0,
    "L-88479C21": 65536.0,
    "L-4EDE4065": 10240.0,
    "L-E24B4DE4": 160000.0,
}
STORED = environment(
    storage={
        "lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 2400}],
        "openzfs": {"capacity_gib": 64, "throughput": 160, "volumes": [{"name": "home", "mount": "/home"}]},
    }
)


def stored(account: Account, wanted: Environment = STORED) -> dict[str, CheckResult]:
    """Results on file systems by the quota's code."""
    return by_quota(results(quotas.file_systems, account, wanted))


def test_each_lustre_deployment_type_has_its_own_quotas() -> None:
    older = {"deployment": "PERSISTENT_1", "throughput": 200, "mount": "/old", "name": "old", "capacity_gib": 4800}
    newer = {"name": "data", "mount": "/fsx", "capacity_gib": 2400}
    found = stored(
        Account(defaults=DEFAULTS, file_systems=[lustre("fs-0", 100000, "PERSISTENT_1")]),
        environment(storage={"lustre": [newer, older]}),
    )
    assert found["L-8F1B9C74"].verdict is Verdict.OK
    assert found["L-C8640C82"].verdict is Verdict.FAULT
    assert "104800" in found["L-C8640C82"].todo


def test_file_systems_within_the_defaults() -> None:
    found = stored(Account(defaults=DEFAULTS))
    assert {result.verdict for result in found.values()} == {Verdict.OK, Verdict.NOTE}
    assert found["L-8F1B9C74"].wanted == "2400 GiB: 2400 for this environment"
    assert found["L-E24B4DE4"].wanted.startswith("192 IOPS")


def test_capacity_and_throughput_of_others_count() -> None:
    found = stored(Account(defaults=DEFAULTS, file_systems=[lustre("fs-0", 100000), openzfs("fs-1", 10240)]))
    wrong = {code for code, result in found.items() if result.verdict is Verdict.FAULT}
    assert wrong == {"L-8F1B9C74", "L-4EDE4065"}
    assert "--service-code fsx --quota-code L-4EDE4065 --desired-value 10400" in found["L-4EDE4065"].todo


def test_our_own_and_scratch_file_systems_do_not_count() -> None:
    account = Account(
        defaults={**DEFAULTS, "L-8F1B9C74": 2400.0, "L-4EDE4065": 160.0},
        file_systems=[lustre("fs-0", 2400), openzfs("fs-1"), lustre("fs-2", 100000, "SCRATCH_2")],
        stacks={"small-storage": [("AWS::FSx::FileSystem", "A", "fs-0"), ("AWS::FSx::FileSystem", "B", "fs-1")]},
    )
    assert {result.verdict for result in stored(account).values()} == {Verdict.OK, Verdict.NOTE}


# --- network ---------------------------------------------------------------------------------------------------------
NETWORK = {"L-F678F1CE": 5.0, "L-0263D0A3": 5.0, "L-FE5A380F": 5.0}
FULL: dict[str, Any] = {
    "defaults": NETWORK,
    "vpcs": [f"vpc-{number}" for number in range(5)],
    "addresses": [f"203.0.113.{number}" for number in range(5)],
    "nat_gateways": [f"nat-{number}" for number in range(5)],
}


def networks(account: Account, wanted: Environment | None = None) -> list[Verdict]:
    return [result.verdict for result in results(quotas.network, account, wanted or environment())]


def test_new_network_needs_one_of_each() -> None:
    assert networks(Account(defaults=NETWORK)) == [Verdict.OK] * 3
    assert networks(Account(**FULL)) == [Verdict.FAULT] * 3
    assert all("--desired-value 6" in result.todo for result in results(quotas.network, Account(**FULL), environment()))


@pytest.mark.parametrize("address", ["203.0.113.0", "203.0.113.0|eipalloc-0123456789abcdef0"])
def test_deployed_network_needs_no_more(address: str) -> None:
    stack = [
        ("AWS::EC2::VPC", "Vpc", "vpc-0"),
        ("AWS::EC2::EIP", "Address", address),
        ("AWS::EC2::NatGateway", "Nat", "nat-0"),
    ]
    assert networks(Account(stacks={"small-network": stack}, **FULL)) == [Verdict.OK] * 3


def test_endpoints_need_no_address_and_an_existing_network_nothing() -> None:
    closed = environment(network={"zone": "use1-az4", "egress": "endpoints-only"})
    assert len(networks(Account(defaults=NETWORK), closed)) == 1
    existing = {"vpc_id": "vpc-01234567", "vpc_cidr": "10.0.0.0/16", "private_subnet_id": "subnet-01234567"}
    assert networks(Account(), environment(network={"zone": "use1-az4", "existing": existing})) == [Verdict.NOTE]
