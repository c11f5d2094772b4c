"""The command against the emulated AWS: good accounts and bad ones, as they are seeded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from local.emulator import launch
from local.steering.client import SteeringRefused
from tests.e2e.conftest import free_ports
from tests.ops.preflight.trial import Trial, user
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

BOUGHT = {
    "id": RESERVATION,
    "instance_type": "p5.48xlarge",
    "zone_id": "use2-az1",
    "count": 2,
}
GOOD: dict[str, Any] = {
    "capacity_reservations": [BOUGHT],
    "quotas": [{"quota": "ec2/L-417A185B", "value": 384}, {"quota": "ec2/L-1216C47A", "value": 32}],
}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A good account for the environment."""
    folder = tmp_path_factory.mktemp("preflight")
    file = folder / "trial.yaml"
    file.write_text(ENVIRONMENT, "utf-8")
    port = free_ports()
    yield Trial(launch.start(folder / "world", ACCOUNT, "us-east-2", port, port + 1, GOOD), file)
    launch.stop(folder / "world")


def test_a_good_account_is_ready(trial: Trial) -> None:
    asked = trial.ask()
    assert asked.of("fault", "unknown", "warning") == []
    assert asked.status == 0
    about = {line["check"] for line in asked.lines}
    assert about == {"capacity", "offerings", "quotas", "regions", "addresses", "images", "buckets", "cluster"}


BAD: dict[str, dict[str, Any]] = {
    "instances": {"available": 1},
    "state": {"state": "expired"},
    "zone": {"zone_id": "use2-az2"},
    "instance type": {"instance_type": "p4d.24xlarge"},
    "kind": {"type": "capacity-block"},
    "tenancy": {"tenancy": "dedicated"},
    "platform": {"platform": "Windows"},
}
"""What is wrong with each of the bad reservations."""


def test_bad_reservations_are_not_ready(trial: Trial) -> None:
    """A queue for each: what is wrong with its reservation, and nothing else, is a fault of it."""
    ids = {f"cr-{number:017x}": what for number, what in enumerate(BAD)}
    text = trial.file.read_text("utf-8")
    queues = "".join(
        f"""    - name: queue-{number}
      capacity: {{type: odcr, reservation: {name}}}
      compute: [{{name: p5, instance_types: [p5.48xlarge], max: 2, efa: true}}]
"""
        for number, name in enumerate(ids)
    )
    trial.seed(
        capacity_reservations=[{**BOUGHT, "id": name, **BAD[what]} for name, what in ids.items()],
        quotas=[{"quota": "ec2/L-417A185B", "value": 10000}],
    )
    trial.file.write_text(text + queues, "utf-8")
    try:
        asked = trial.ask()
    finally:
        trial.file.write_text(text, "utf-8")
        for name in ids:
            trial.client("ec2").cancel_capacity_reservation(CapacityReservationId=name)
        trial.seed(quotas=GOOD["quotas"])
    assert asked.status == 1
    wrong = [f"capacity: {name} of queue queue-{number}: {what}" for number, (name, what) in enumerate(ids.items())]
    assert asked.of("fault") == wrong


def test_quotas_that_are_too_small_are_not_ready(trial: Trial) -> None:
    small = {
        "ec2/L-417A185B": 383,
        "ec2/L-0263D0A3": 0,
        "vpc/L-F678F1CE": 1,
        "vpc/L-FE5A380F": 0,
        "fsx/L-8F1B9C74": 1199,
        "fsx/L-4EDE4065": 159,
    }
    before = {"ec2/L-417A185B": 384, "ec2/L-0263D0A3": 5, "vpc/L-F678F1CE": 5, "vpc/L-FE5A380F": 5}
    before |= {"fsx/L-8F1B9C74": 100800, "fsx/L-4EDE4065": 10240}
    trial.seed(quotas=[{"quota": quota, "value": value} for quota, value in small.items()])
    try:
        asked = trial.ask()
    finally:
        trial.seed(quotas=[{"quota": quota, "value": value} for quota, value in before.items()])
    assert asked.status == 1
    found = {subject.rpartition("(")[2].rstrip(")") for subject in asked.of("fault")}
    assert found == {quota.partition("/")[2] for quota in small}


def test_instances_that_run_already_take_room_in_quota_and_reservation(trial: Trial) -> None:
    trial.seed(
        instances=[
            {"instance_type": "p5.48xlarge", "reservation": RESERVATION, "tags": {"Name": "somebody's"}},
            {"instance_type": "p4d.24xlarge"},
            {"instance_type": "p5.48xlarge", "lifecycle": "capacity-block"},
            {"instance_type": "p5.48xlarge", "lifecycle": "spot"},
        ]
    )
    asked = trial.ask()
    assert asked.of("fault") == [
        f"capacity: {RESERVATION} of queue gpu: instances",
        "quotas: Running On-Demand P instances (L-417A185B)",
    ]
    [quota] = [line for line in asked.lines if "L-417A185B" in line["subject"]]
    assert quota["wanted"].startswith("480 vCPUs: 384 for 2 x p5.48xlarge")
    ec2 = trial.client("ec2")
    running = [
        instance["InstanceId"]
        for reservation in ec2.describe_instances()["Reservations"]
        for instance in reservation["Instances"]
    ]
    ec2.terminate_instances(InstanceIds=running)
    assert trial.ask().status == 0, "the reservation has its room again"


def test_names_of_buckets_that_are_taken(trial: Trial) -> None:
    trial.seed(taken_buckets=["acme-trial-data"])
    trial.client("s3").create_bucket(
        Bucket="acme-trial-assets", CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
    )
    asked = trial.ask()
    trial.client("s3").delete_bucket(Bucket="acme-trial-assets")
    assert asked.of("fault") == ["buckets: acme-trial-data"]
    assert asked.of("warning") == ["buckets: acme-trial-assets"]
    assert asked.status == 1


def test_what_is_allowed_is_enough_and_nothing_more_is_called(trial: Trial) -> None:
    """IAM is enforced here: with exactly the actions of `trainyard.pipeline.actions` nothing is unknown."""
    whole = trial.ask(**user(trial, list(PREFLIGHT)))
    assert whole.of("unknown") == []
    less = trial.ask(**user(trial, [action for action in PREFLIGHT if action != "servicequotas:ListServiceQuotas"]))
    assert less.status == 1
    assert {line["asked"] for line in less.lines if line["verdict"] == "unknown"} == {"servicequotas:ListServiceQuotas"}


def test_wrong_accounts_and_formats(trial: Trial) -> None:
    other = trial.run(AWS_ACCESS_KEY_ID="444455556666")
    assert other.returncode == 4
    assert "belong to account 444455556666" in other.stderr
    assert "Preflight of trial in 111122223333, us-east-2" in trial.run().stdout


def test_seeds_that_do_not_fit_are_refused(trial: Trial) -> None:
    for seeds, said in (
        ({"quotas": [{"quota": "ec2/L-0", "value": 1}]}, "no quota ec2/L-0"),
        ({"quotas": [{"quota": "ec2/L-417A185B"}]}, "lacks 'value'"),
        ({"instances": [{"instance_type": "p9.large"}]}, "does not exist"),
        ({"capacity_reservations": [{**BOUGHT, "ends": "soon"}]}, "'soon' is not a time"),
        ({"quota": []}, "unknown quota"),
    ):
        with pytest.raises(SteeringRefused, match=said):
            trial.seed(**seeds)


def test_what_the_zone_and_the_region_lack(trial: Trial) -> None:
    """Last of this world: an offer that is taken away does not come back."""
    trial.seed(
        not_offered=[{"instance_type": "p5.48xlarge", "zone_id": "use2-az1"}],
        missing_images=["aws-parallelcluster-*-ubuntu-2204-*"],
    )
    asked = trial.ask()
    assert asked.status == 1
    assert {"offerings: p5.48xlarge (compute)", "images: official image for head node, queue gpu"} <= set(
        asked.of("fault")
    )
