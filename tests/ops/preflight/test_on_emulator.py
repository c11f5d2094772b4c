"""The command with good and bad accounts of the emulated AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from local.control import Control
from local.control.client import InstructionRefused
from local.emulator import launch
from settings import environment_file
from tests.e2e.conftest import free_ports
from tests.ops.preflight.emulated import Emulated
from trainyard.pipeline.actions import PREFLIGHT

pytestmark = pytest.mark.e2e

ACCOUNT = "111122223333"
RESERVATION = "cr-0123456789abcdef0"

ENVIRONMENT = """
name: trial
account: "111122223333"
region: us-east-2
network: {zone: use2-az1}
storage:
  buckets: {name_prefix: acme-trial}
  lustre: [{name: data, mount: /fsx, capacity_gib: 1200}]
  openzfs: {capacity_gib: 64, throughput: 160, volumes: [{name: home, mount: /home}]}
cluster:
  queues:
    - name: gpu
      capacity: {type: odcr, reservation: cr-0123456789abcdef0}
      compute: [{name: p5, instance_types: [p5.48xlarge], max: 2, efa: true}]
"""

BOUGHT = {"id": RESERVATION, "instance_type": "p5.48xlarge", "zone_id": "use2-az1", "count": 2}
GOOD: dict[str, Any] = {
    "capacity_reservations": [BOUGHT],
    "quotas": [{"quota": "ec2/L-417A185B", "value": 384}, {"quota": "ec2/L-1216C47A", "value": 32}],
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """A good account for the environment."""
    folder = tmp_path_factory.mktemp("preflight")
    file = folder / "trial.yaml"
    file.write_text(ENVIRONMENT, "utf-8")
    port = free_ports()
    yield Emulated(launch.start(folder / "state", ACCOUNT, "us-east-2", port, port + 1, GOOD), file)
    launch.stop(folder / "state")


def test_good_account_is_ready(good: Emulated) -> None:
    answer = good.ask()
    assert answer.of("fault", "unknown", "warning") == []
    assert answer.status == 0
    groups = sorted({result["check"] for result in answer.results})
    assert " ".join(groups) == "addresses buckets capacity cluster cost images names offerings quotas regions"


BAD: dict[str, dict[str, Any]] = {
    "instances": {"available": 1},
    "state": {"state": "expired"},
    "zone": {"zone_id": "use2-az2"},
    "instance type": {"instance_type": "p4d.24xlarge"},
    "kind": {"type": "capacity-block"},
    "tenancy": {"tenancy": "dedicated"},
    "platform": {"platform": "Windows"},
}
"""The attribute that is wrong, and its value in the reservation."""


def test_bad_reservations_are_not_ready(good: Emulated) -> None:
    """Each bad reservation has a queue, and only its bad attribute is a fault."""
    ids = {f"cr-{number:017x}": attribute for number, attribute in enumerate(BAD)}
    queues = "".join(
        f"""    - name: queue-{number}
      capacity: {{type: odcr, reservation: {name}}}
      compute: [{{name: p5, instance_types: [p5.48xlarge], max: 2, efa: true}}]
"""
        for number, name in enumerate(ids)
    )
    good.seed(capacity_reservations=[{**BOUGHT, "id": name, **BAD[attribute]} for name, attribute in ids.items()])
    good.quotas({"ec2/L-417A185B": 10000})
    try:
        answer = good.ask_with(good.file.read_text("utf-8") + queues)
    finally:
        for name in ids:
            good.client("ec2").cancel_capacity_reservation(CapacityReservationId=name)
        good.seed(quotas=GOOD["quotas"])
    assert answer.status == 1
    subjects = [f"{name} of queue queue-{number}: {what}" for number, (name, what) in enumerate(ids.items())]
    assert answer.of("fault") == [f"capacity: {subject}" for subject in subjects]


def test_small_quotas_are_not_ready(good: Emulated) -> None:
    small = {"ec2/L-417A185B": 383, "ec2/L-0263D0A3": 0, "vpc/L-F678F1CE": 1, "vpc/L-FE5A380F": 0}
    before = {"ec2/L-417A185B": 384, "ec2/L-0263D0A3": 5, "vpc/L-F678F1CE": 5, "vpc/L-FE5A380F": 5}
    good.quotas({**small, "fsx/L-8F1B9C74": 1199, "fsx/L-4EDE4065": 159})
    try:
        answer = good.ask()
    finally:
        good.quotas({**before, "fsx/L-8F1B9C74": 100800, "fsx/L-4EDE4065": 10240})
    assert answer.status == 1
    found = {subject.rpartition("(")[2].rstrip(")") for subject in answer.of("fault")}
    assert found == {"L-417A185B", "L-0263D0A3", "L-F678F1CE", "L-FE5A380F", "L-8F1B9C74", "L-4EDE4065"}


def test_running_instances_use_quota_and_reservation(good: Emulated) -> None:
    good.seed(
        instances=[
            {"instance_type": "p5.48xlarge", "reservation": RESERVATION, "tags": {"Name": "somebody's"}},
            {"instance_type": "p4d.24xlarge"},
            {"instance_type": "p5.48xlarge", "lifecycle": "capacity-block"},
            {"instance_type": "p5.48xlarge", "lifecycle": "spot"},
        ]
    )
    answer = good.ask()
    assert answer.of("fault") == [
        f"capacity: {RESERVATION} of queue gpu: instances",
        "quotas: Running On-Demand P instances (L-417A185B)",
    ]
    [quota] = [result for result in answer.results if "L-417A185B" in result["subject"]]
    assert quota["wanted"].startswith("480 vCPUs: 384 for 2 x p5.48xlarge")
    ec2 = good.client("ec2")
    there = [found for one in ec2.describe_instances()["Reservations"] for found in one["Instances"]]
    ec2.terminate_instances(InstanceIds=[found["InstanceId"] for found in there])


def test_bucket_names_that_are_taken(good: Emulated) -> None:
    good.seed(taken_buckets=["acme-trial-data"])
    good.client("s3").create_bucket(
        Bucket="acme-trial-assets", CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
    )
    answer = good.ask()
    good.client("s3").delete_bucket(Bucket="acme-trial-assets")
    assert answer.of("fault") == ["buckets: acme-trial-data"]
    assert answer.of("warning") == ["buckets: acme-trial-assets"]
    assert answer.status == 1


def test_listed_permissions_are_enough(good: Emulated) -> None:
    """The emulator enforces IAM: with exactly the actions of `trainyard.pipeline.actions` nothing is unknown."""
    assert good.ask(**good.user(*PREFLIGHT)).of("unknown") == []
    missing = "servicequotas:ListServiceQuotas"
    less = good.ask(**good.user(*(action for action in PREFLIGHT if action != missing)))
    assert less.status == 1
    assert {result["asked"] for result in less.results if result["verdict"] == "unknown"} == {missing}


def test_credentials_of_another_account(good: Emulated) -> None:
    other = good.run(AWS_ACCESS_KEY_ID="444455556666")
    assert other.returncode == 4
    assert "belong to account 444455556666" in other.stderr


def test_wrong_seeds_are_refused(good: Emulated) -> None:
    for seeds, reason in (
        ({"quotas": [{"quota": "ec2/L-0", "value": 1}]}, "no quota ec2/L-0"),
        ({"quotas": [{"quota": "ec2/L-417A185B"}]}, "lacks 'value'"),
        ({"instances": [{"instance_type": "p9.large"}]}, "does not exist"),
        ({"capacity_reservations": [{**BOUGHT, "ends": "soon"}]}, "'soon' is not a time"),
        ({"quota": []}, "unknown quota"),
    ):
        with pytest.raises(InstructionRefused, match=reason):
            good.seed(**seeds)


def test_jakarta_is_ready(good: Emulated) -> None:
    """The flagship, in an account with its reservation and the vCPUs of its head node and monitoring host."""
    bought = {"instance_type": "p5e.48xlarge", "zone_id": "apse3-az1", "count": 80}
    quotas = [{"quota": "ec2/L-417A185B", "value": 80 * 192}, {"quota": "ec2/L-1216C47A", "value": 34}]
    seeds = {"capacity_reservations": [{**bought, "id": RESERVATION}], "quotas": quotas}
    Control(good.emulator).seeds(seeds, region="ap-southeast-3")
    jakarta = Emulated(replace(good.emulator, region="ap-southeast-3"), environment_file("jakarta-80xp5e"))
    answer = jakarta.ask()
    assert answer.of("fault", "unknown", "warning") == []
    assert answer.status == 0


def test_zone_and_region_lack_type_and_image(good: Emulated) -> None:
    """The last test: an offer or image that is taken away does not come back."""
    good.seed(
        not_offered=[{"instance_type": "p5.48xlarge", "zone_id": "use2-az1"}],
        missing_images=["aws-parallelcluster-*-ubuntu-2204-*"],
    )
    answer = good.ask()
    assert answer.status == 1
    assert {"offerings: p5.48xlarge (compute)", "images: official image for head node, queue gpu"} <= set(
        answer.of("fault")
    )
