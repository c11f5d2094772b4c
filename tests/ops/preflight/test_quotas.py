"""Quotas: what counts, what does not, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from ops.preflight import families
from ops.preflight.checks import file_system_quotas, network_quotas, vcpus
from ops.preflight.families import G_VT, P4, P5, P6, STANDARD, Family, family_of
from ops.preflight.results import CheckResult, Verdict
from settings import Environment
from settings.instances import instance_types
from tests.cluster_config.builder import GPU, environment
from tests.ops.preflight.account import RESERVATION, Account, context, instance, reservation

P, P5_SPOT, STANDARD_CODE = "L-417A185B", "L-C4BD4855", "L-1216C47A"
RAISED = {P: 384.0, P5_SPOT: 384.0, STANDARD_CODE: 64.0}


def gpu(**queue: Any) -> Environment:  # noqa: ANN401 - any key of a queue
    """Two p5.48xlarge, 192 vCPUs each, and a head node of 8."""
    return environment(cluster={"queues": [{"name": "gpu", "compute": [GPU], **queue}]})


def by_code(account: Account, wanted: Environment) -> dict[str, CheckResult]:
    """The lines by the quota's code."""
    found = list(vcpus.check(context(account, wanted)))
    return {line.subject.rpartition("(")[2].rstrip(")"): line for line in found}


def test_just_enough_is_enough_and_one_less_is_not() -> None:
    line = by_code(Account(quotas=RAISED), gpu())[P]
    assert line.verdict is Verdict.OK
    assert "384 for 2 x p5.48xlarge (gpu)" in line.wanted
    short = by_code(Account(quotas={**RAISED, P: 383.0}), gpu())[P]
    assert short.verdict is Verdict.FAULT
    assert "--region us-east-1 --service-code ec2 --quota-code L-417A185B --desired-value 384" in short.todo


def test_what_runs_of_others_counts_and_what_is_ours_does_not() -> None:
    ours = [instance("p5.48xlarge", cluster="small")] * 2
    assert by_code(Account(quotas=RAISED, instances=ours), gpu())[P].verdict is Verdict.OK
    others = by_code(Account(quotas=RAISED, instances=[instance("p4d.24xlarge")]), gpu())[P]
    assert others.verdict is Verdict.FAULT
    assert others.wanted.startswith("480 vCPUs: 384 for")
    elsewhere = by_code(Account(quotas=RAISED, instances=[instance("c7i.xlarge")]), gpu())
    assert elsewhere[P].verdict is Verdict.OK
    assert ", 4 of others" in elsewhere[STANDARD_CODE].wanted


def test_instances_of_a_capacity_block_count_towards_nothing() -> None:
    block = {"capacity": {"type": "capacity-block", "reservation": RESERVATION}, "compute": [{**GPU, "min": 2}]}
    found = by_code(Account(quotas={STANDARD_CODE: 64.0}), gpu(**block))
    assert P not in found
    assert any(line.verdict is Verdict.NOTE and "capacity block" in line.wanted for line in found.values())
    of_others = [instance("p5.48xlarge", InstanceLifecycle="capacity-block")]
    assert by_code(Account(quotas=RAISED, instances=of_others), gpu())[P].verdict is Verdict.OK


def test_spot_counts_towards_its_own_quota() -> None:
    found = by_code(Account(quotas=RAISED), gpu(capacity={"type": "spot"}))
    assert found[P5_SPOT].verdict is Verdict.OK
    assert P not in found
    used = by_code(
        Account(quotas=RAISED, instances=[instance("p5.48xlarge", InstanceLifecycle="spot")]),
        gpu(capacity={"type": "spot"}),
    )
    assert used[P5_SPOT].verdict is Verdict.FAULT


def test_a_reservation_counts_once_used_or_not() -> None:
    odcr = gpu(capacity={"type": "odcr", "reservation": RESERVATION})
    used = [instance("p5.48xlarge", cluster="small", CapacityReservationId=RESERVATION)] * 2
    for free, running in ((2, []), (0, used)):
        held = Account(quotas=RAISED, reservations=[reservation(AvailableInstanceCount=free)], instances=running)
        line = by_code(held, odcr)[P]
        assert line.verdict is Verdict.OK
        assert line.wanted.startswith("384 vCPUs")
    larger = Account(quotas=RAISED, reservations=[reservation(TotalInstanceCount=3, AvailableInstanceCount=3)])
    assert by_code(larger, odcr)[P].wanted.startswith("576 vCPUs")


def test_reservations_of_a_group_count_once() -> None:
    arn = "arn:aws:resource-groups:us-east-1:123456789012:group/odcr"
    odcr = gpu(capacity={"type": "odcr", "reservation_group": arn})
    one = reservation(TotalInstanceCount=1, AvailableInstanceCount=1)
    two = {**one, "CapacityReservationId": "cr-0123456789abcdef1"}
    held = Account(quotas=RAISED, reservations=[one, two], groups={arn: [RESERVATION, "cr-0123456789abcdef1"]})
    assert by_code(held, odcr)[P].wanted == "384 vCPUs: 384 for 2 x p5.48xlarge (odcr)"
    missing = Account(quotas=RAISED)
    assert by_code(missing, odcr)[P].wanted.startswith("384 vCPUs")


def test_an_idle_reservation_of_others_counts_too() -> None:
    idle = reservation(CapacityReservationId="cr-0123456789abcdef1")
    assert by_code(Account(quotas=RAISED, reservations=[idle]), gpu())[P].verdict is Verdict.FAULT
    expired = {**idle, "State": "expired"}
    assert by_code(Account(quotas=RAISED, reservations=[expired]), gpu())[P].verdict is Verdict.OK
    shared = {**idle, "OwnerId": "999988887777"}
    assert by_code(Account(quotas=RAISED, reservations=[shared]), gpu())[P].verdict is Verdict.OK


def test_a_default_counts_where_nothing_was_raised_and_a_name_where_the_code_is_another() -> None:
    line = by_code(Account(defaults={P: 0.0, STANDARD_CODE: 64.0}), gpu())[P]
    assert line.verdict is Verdict.FAULT
    assert line.found == "0 vCPUs, the default"
    renamed = Account(quotas={"L-OTHER": 500.0}, quota_names={"L-OTHER": "Running On-Demand P  Instances"})
    assert by_code(renamed, gpu())["L-OTHER"].verdict is Verdict.OK


def test_a_quota_that_is_not_listed_is_unknown() -> None:
    assert by_code(Account(quotas={STANDARD_CODE: 64.0}), gpu())[P].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("p5.48xlarge", P5),
        ("p5en.48xlarge", P5),
        ("p4d.24xlarge", P4),
        ("p6-b200.48xlarge", P6),
        ("g6e.48xlarge", G_VT),
        ("gr6.4xlarge", G_VT),
        ("m7i.2xlarge", STANDARD),
        ("im4gn.large", STANDARD),
        ("mac2.metal", None),
        ("p7.48xlarge", None),
    ],
)
def test_families(name: str, family: Family | None) -> None:
    assert family_of(name) == family


@pytest.mark.parametrize(
    ("name", "quota"),
    [
        ("hpc7a.96xlarge", "Running On-Demand HPC instances"),
        ("u7i-12tb.224xlarge", "Running On-Demand High Memory instances"),
        ("trn2.48xlarge", "Running On-Demand Trn instances"),
    ],
)
def test_families_by_their_quota(name: str, quota: str) -> None:
    family = family_of(name)
    assert family is not None and family.on_demand.name == quota


def test_the_quota_of_an_unknown_generation_is_unknown_and_that_of_p6_on_spot_undocumented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = environment(cluster={"queues": [{"name": "gpu", "compute": [{**GPU, "instance_types": ["p5.48xlarge"]}]}]})
    monkeypatch.setattr(families, "_P_GENERATIONS", {})
    [line] = [one for one in vcpus.check(context(Account(quotas=RAISED), new)) if one.verdict is Verdict.UNKNOWN]
    assert line.found == "the quota of this type is unknown"
    assert "add its family to ops/preflight/families.py" in line.todo


def test_every_known_instance_type_has_a_family() -> None:
    assert [name for name in instance_types() if family_of(name) is None] == []


# --- file systems ----------------------------------------------------------------------------------------------------
CODES = {
    "L-FD6F2F22": 100.0,
    "L-8F1B9C74": 100800.0,
    "L-59D0763F": 100.0,
    "L-88479C21": 65536.0,
    "L-4EDE4065": 10240.0,
    "L-E24B4DE4": 160000.0,
}
STORED: dict[str, Any] = {
    "storage": {
        "lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 2400}],
        "openzfs": {"capacity_gib": 64, "throughput": 160, "volumes": [{"name": "home", "mount": "/home"}]},
    }
}


def lustre(name: str, capacity: int) -> dict[str, Any]:
    """A Lustre file system as FSx describes it."""
    return {
        "FileSystemId": name,
        "FileSystemType": "LUSTRE",
        "StorageCapacity": capacity,
        "Lifecycle": "AVAILABLE",
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
    }


def openzfs(name: str, throughput: int) -> dict[str, Any]:
    """An OpenZFS file system as FSx describes it."""
    return {
        "FileSystemId": name,
        "FileSystemType": "OPENZFS",
        "StorageCapacity": 64,
        "Lifecycle": "AVAILABLE",
        "OpenZFSConfiguration": {"DeploymentType": "SINGLE_AZ_HA_2", "ThroughputCapacity": throughput},
    }


def stored(account: Account) -> dict[str, CheckResult]:
    """The lines on file systems by the quota's code."""
    found = list(file_system_quotas.check(context(account, environment(**STORED))))
    return {line.subject.rpartition("(")[2].rstrip(")"): line for line in found}


def test_file_systems_fit_into_the_defaults() -> None:
    found = stored(Account(defaults=CODES))
    assert {line.verdict for line in found.values()} == {Verdict.OK, Verdict.NOTE}
    assert found["L-8F1B9C74"].wanted == "2400 GiB: 2400 for this environment"
    assert found["L-E24B4DE4"].wanted.startswith("192 IOPS")


def test_capacity_and_throughput_of_others_count() -> None:
    there = [lustre("fs-0", 100000), openzfs("fs-1", 10240)]
    found = stored(Account(defaults=CODES, file_systems=there))
    wrong = {code for code, line in found.items() if line.verdict is Verdict.FAULT}
    assert wrong == {"L-8F1B9C74", "L-4EDE4065"}
    assert "--service-code fsx --quota-code L-4EDE4065 --desired-value 10400" in found["L-4EDE4065"].todo


def test_our_own_file_systems_are_not_counted_twice_and_scratch_ones_not_at_all() -> None:
    scratch = lustre("fs-2", 100000)
    scratch["LustreConfiguration"] = {"DeploymentType": "SCRATCH_2"}
    account = Account(
        defaults={**CODES, "L-8F1B9C74": 2400.0, "L-4EDE4065": 160.0},
        file_systems=[lustre("fs-0", 2400), openzfs("fs-1", 160), scratch],
        stacks={"small-storage": [("AWS::FSx::FileSystem", "A", "fs-0"), ("AWS::FSx::FileSystem", "B", "fs-1")]},
    )
    assert {line.verdict for line in stored(account).values()} == {Verdict.OK, Verdict.NOTE}


# --- network ---------------------------------------------------------------------------------------------------------
NETWORK = {"L-F678F1CE": 5.0, "L-0263D0A3": 5.0, "L-FE5A380F": 5.0}
FULL: dict[str, Any] = {
    "vpcs": [f"vpc-{number}" for number in range(5)],
    "addresses": [f"203.0.113.{number}" for number in range(5)],
    "nat_gateways": [f"nat-{number}" for number in range(5)],
}


def networks(account: Account, wanted: Environment | None = None) -> list[CheckResult]:
    """The lines on the network's quotas."""
    return list(network_quotas.check(context(account, wanted or environment())))


def test_a_new_network_needs_one_of_each() -> None:
    assert [line.verdict for line in networks(Account(defaults=NETWORK))] == [Verdict.OK] * 3
    full = networks(Account(defaults=NETWORK, **FULL))
    assert [line.verdict for line in full] == [Verdict.FAULT] * 3
    assert all("--desired-value 6" in line.todo for line in full)


@pytest.mark.parametrize("address", ["203.0.113.0", "203.0.113.0|eipalloc-0123456789abcdef0"])
def test_a_network_that_stands_needs_no_more(address: str) -> None:
    stack = [
        ("AWS::EC2::VPC", "Vpc", "vpc-0"),
        ("AWS::EC2::EIP", "Address", address),
        ("AWS::EC2::NatGateway", "Nat", "nat-0"),
    ]
    standing = networks(Account(defaults=NETWORK, stacks={"small-network": stack}, **FULL))
    assert [line.verdict for line in standing] == [Verdict.OK] * 3


def test_endpoints_need_no_address_and_an_existing_network_nothing() -> None:
    closed = environment(network={"zone": "use1-az4", "egress": "endpoints-only"})
    assert len(networks(Account(defaults=NETWORK), closed)) == 1
    existing = {"vpc_id": "vpc-01234567", "vpc_cidr": "10.0.0.0/16", "private_subnet_id": "subnet-01234567"}
    [note] = networks(Account(), environment(network={"zone": "use1-az4", "existing": existing}))
    assert note.verdict is Verdict.NOTE
