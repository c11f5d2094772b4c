"""The command against the emulated AWS: good accounts and bad ones, as they are seeded, and a deployed environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.steering import Steer
from local.world import launch
from preflight.permissions import ACTIONS, ASSUME
from tests.local.conftest import free_ports

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
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


@dataclass
class Asked:
    """What one run came to: its exit status and its lines."""

    status: int
    lines: list[dict[str, str]]

    def of(self, *verdicts: str) -> list[str]:
        """What the lines with such a verdict are about."""
        return [f"{line['check']}: {line['subject']}" for line in self.lines if line["verdict"] in verdicts]


@dataclass
class Trial:
    """A world with one environment file."""

    world: launch.World
    file: Path

    def seed(self, **seeds: Any) -> None:  # noqa: ANN401 - seeds.py
        """Put seeds into the account."""
        Steer(self.world).seeds(seeds)

    def ask(self, **environment: str) -> Asked:
        """Run the command as a user does."""
        result = self.run("--format", "json", **environment)
        assert result.returncode in (0, 1), result.stderr
        return Asked(result.returncode, json.loads(result.stdout)["lines"])

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command with any options."""
        return subprocess.run(
            [sys.executable, "-m", "preflight", str(self.file), *options],
            cwd=ROOT,
            env={**self.world.child_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3's
        """A client with the account's own key."""
        untyped: Any = boto3.Session(
            aws_access_key_id=ACCOUNT, aws_secret_access_key="local", region_name=self.world.region
        )
        return untyped.client(service, endpoint_url=self.world.endpoint)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A good account for the environment."""
    folder = tmp_path_factory.mktemp("preflight")
    file = folder / "trial.yaml"
    file.write_text(ENVIRONMENT, "utf-8")
    port, api_port = free_ports(2)
    yield Trial(launch.start(folder / "world", ACCOUNT, "us-east-2", port, api_port, GOOD), file)
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
    """IAM is enforced here: with exactly the actions of `preflight.permissions` nothing is unknown."""
    whole = trial.ask(**user(trial, list(ACTIONS)))
    assert whole.of("unknown") == []
    less = trial.ask(**user(trial, [action for action in ACTIONS if action != "servicequotas:ListServiceQuotas"]))
    assert less.status == 1
    assert {line["asked"] for line in less.lines if line["verdict"] == "unknown"} == {"servicequotas:ListServiceQuotas"}


def test_wrong_accounts_and_formats(trial: Trial) -> None:
    other = trial.run(AWS_ACCESS_KEY_ID="444455556666")
    assert other.returncode == 4
    assert "are of account 444455556666" in other.stderr
    said = trial.run()
    assert said.stdout.splitlines()[1] == "trial in account 111122223333, us-east-2"


def test_seeds_that_do_not_fit_are_refused(trial: Trial) -> None:
    from local.steering.client import SteeringRefused

    for seeds, said in (
        ({"quotas": [{"quota": "ec2/L-0", "value": 1}]}, "no quota ec2/L-0"),
        ({"quotas": [{"quota": "ec2/L-417A185B"}]}, "lacks 'value'"),
        ({"instances": [{"instance_type": "p9.large"}]}, "does not exist"),
        ({"capacity_reservations": [{**BOUGHT, "ends": "soon"}]}, "'soon' is no time"),
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


def user(trial: Trial, actions: list[str]) -> dict[str, str]:
    """The keys of a user that may do no more than some actions, as variables."""
    iam = trial.client("iam")
    name = f"user-{len(iam.list_users()['Users'])}"
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="preflight", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


# --- the dry run of the API, in an environment that stands ----------------------------------------------------------
@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """environments/local.yaml, deployed."""
    folder = tmp_path_factory.mktemp("deployed")
    file = folder / "local.yaml"
    text = (ROOT / "environments" / "local.yaml").read_text("utf-8")
    file.write_text(text, "utf-8")
    state, port = folder / "state", free_ports(2)[0]
    base = [sys.executable, "-m", "local"]
    options = [str(file), "--state", str(state)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    try:
        subprocess.run(
            [*base, "up", *options, "--port", str(port), "--no-hello"],
            cwd=ROOT,
            env=kept,
            check=True,
            timeout=600,
            capture_output=True,
        )
        world = launch.find(state)
        assert world is not None
        yield Trial(world, file)
    finally:
        subprocess.run([*base, "down", *options, "--force"], cwd=ROOT, env=kept, check=False, timeout=120)


def test_what_stands_is_not_counted_twice_and_the_api_is_asked(deployed: Trial) -> None:
    own = {"ec2/L-417A185B": 384, "ec2/L-0263D0A3": 1, "vpc/L-F678F1CE": 2, "fsx/L-8F1B9C74": 1200}
    deployed.seed(quotas=[{"quota": quota, "value": value} for quota, value in own.items()])
    Steer(deployed.world).nodes("local", "gpu", "p5", 2, "p5.48xlarge")
    asked = deployed.ask()
    assert asked.of("fault", "unknown", "warning") == []
    [dry] = [line for line in asked.lines if line["subject"] == "dry run: update local"]
    assert dry["found"] == "no changes: the cluster is as the file says"


@pytest.mark.parametrize(
    ("edit", "status", "verdict", "said"),
    [
        (("max: 2", "max: 3"), 1, "ok", "it would succeed"),
        (("type: m7i.2xlarge", "type: m7i.4xlarge"), 0, "warning", "HeadNode.InstanceType"),
    ],
    ids=["more nodes, for which the quota is too small", "another head node"],
)
def test_changes_are_run_dry(deployed: Trial, edit: tuple[str, str], status: int, verdict: str, said: str) -> None:
    text = deployed.file.read_text("utf-8")
    deployed.file.write_text(text.replace(*edit), "utf-8")
    try:
        asked = deployed.ask()
    finally:
        deployed.file.write_text(text, "utf-8")
    [dry] = [line for line in asked.lines if line["subject"] == "dry run: update local"]
    assert (dry["verdict"], asked.status) == (verdict, status)
    assert said in dry["found"]


def test_the_api_is_asked_as_a_role_that_may_be_assumed(deployed: Trial) -> None:
    [unknown] = deployed.ask(**user(deployed, list(ACTIONS))).of("unknown")
    assert unknown == "cluster: dry run of local"
    assert deployed.ask(**user(deployed, [*ACTIONS, ASSUME])).of("unknown") == []
