"""The whole system on the local default, as a user runs it: deploy, again, diff, update, destroy."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from local.emulator import launch
from local.slurm import Laboratory
from local.slurm.remote import LABORATORIES
from tests.ops.preflight.emulated import Emulated
from trainyard.pipeline.actions import DEPLOYMENT, PEOPLE

from .conftest import ROOT, Local, client_of, loopback_alone

pytestmark = pytest.mark.e2e

FAST = """\
    - name: fast
      mount: /fast
      capacity_gib: 2400
      throughput: 125
"""

NOTIFY = """\
  notify:
    emails: [team@example.com]
    webhook_secret: none/has/been/created
"""

COST = """
cost:
  prices:
    p5.48xlarge: 31.5
  budget:
    monthly_usd: 90000
    emails: [finance@example.com]
    at_limit: stop-new-jobs
"""

SECRET = "arn:aws:secretsmanager:ap-southeast-3:111122223333:secret:slurm-AbCdEf"
DATABASE = f"{{uri: 'db.example.com:3306', user: slurm, password_secret_arn: '{SECRET}'}}"

LocalOf = Callable[[str], Local]


def processes_of(local: Local) -> list[str]:
    """Command lines of processes that still know the state folder."""
    listing = subprocess.run(["ps", "axeww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(local.state) in line and "pytest" not in line]


def people_change_without_an_update(local: Local) -> None:
    """`trainyard user` through the emulated S3 and Systems Manager to the laboratory's head node."""
    stacks = local.ok("status")
    first = local.user("apply")  # starts the laboratory of the new environment, whose bootstrap applies the file
    assert first.returncode == 0, first.stdout + local.logs()
    added = local.user("add", "pierre", "--key", "ssh-ed25519 AAAAnonsense")
    assert (added.returncode, "not an SSH public key" in added.stdout) == (4, True), added.stdout
    added = local.user("add", "pierre")
    assert added.returncode == 0, added.stdout + local.logs()
    laboratory = Laboratory(next((local.state / LABORATORIES).glob("*/plan.json")).parent)
    # The message may say that nothing is left to do: the head node's timer looks every two minutes, too.
    assert laboratory.output(["id", "--user", "pierre"]) == "10001"
    removed = local.user("remove", "marie")
    assert removed.returncode == 0, removed.stdout + local.logs()
    assert laboratory.run(["id", "marie"], check=False).returncode == 1
    assert laboratory.output(["stat", "--format=%u", "/home/marie"]) == "10000"
    # With the permissions of the page on permissions, and no others.
    emulator = launch.find(local.state)
    assert emulator is not None
    keys = Emulated(emulator, local.file).user(*PEOPLE)
    place = ("--on", "aws", "--state", str(local.state.with_name("aws")))
    environment = {**emulator.child_environment(), **keys}
    line = [sys.executable, "-m", "cli", "user", "apply", str(local.file), *place]
    applied = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "PROBLEM" not in applied.stdout
    assert local.ok("status") == stacks


def test_a_life_from_deploy_to_destroy(local_of: LocalOf) -> None:
    local = local_of("local")

    first = local.ok("up")
    assert re.search(r"cluster\s+local\s+CREATE_COMPLETE", first), first
    for what in ("network", "file system", "association", "bucket", "repository", "head node", "queue"):
        assert what in first
    assert "p5.48xlarge" in first
    assert first.count(": 8 GPUs") == 2
    assert "hello-gpu: COMPLETED" in first
    assert f"Metrics of a second job (simulated): {local.state / 'overview.html'}" in first.replace("\n", "")
    assert "Tokens/s" in (page := (local.state / "overview.html").read_text()), page
    assert "overview of the last 120 seconds" in page
    assert "(simulated)" in page
    # The API acts with the recorded policies of its function. Its validators report some denials as warnings only.
    assert "is not authorized" not in (local.state / "api.log").read_text()

    again = local.ok("up")
    assert "Nothing to change" in again
    assert "CREATE_COMPLETE" in again
    assert "UPDATE" not in again

    local.ok("diff")

    local.edit(r"max: 2(\s+efa)", r"max: 3\1")
    local.edit("file_systems: delete\n", "file_systems: keep\n")
    reviewed = local.run("diff")
    changed = reviewed.stdout
    assert reviewed.returncode == 1, changed
    assert re.search(r"^SAFE", changed, re.MULTILINE), changed
    assert re.search(r"MaxCount.*\n?.*3", changed), changed
    # docs/storage.md, "Replace a file system": add.
    local.edit("  openzfs:\n", f"{FAST}  openzfs:\n")

    # A wrong webhook, which must fail neither the deployment nor a message.
    local.edit(r"(\nobservability:\n)", rf"{COST}\1{NOTIFY}")

    # People, who come with this update and change later without one.
    local.edit(r"(\nobservability:\n)", r"\npeople:\n  file: people.yaml\n\1")
    (local.file.parent / "people.yaml").write_text("users:\n  - name: marie\n    uid: 10000\n")

    emulator = launch.find(local.state)
    assert emulator is not None
    keys = Emulated(emulator, local.file).user(
        *DEPLOYMENT, "sts:AssumeRole", "s3:DeleteObject", "s3:DeleteObjectVersion"
    )
    unconfirmed = local.on_aws("up", **keys)
    assert unconfirmed.returncode == 4
    assert "no terminal to ask on" in unconfirmed.stdout
    deployed = local.on_aws("up", "--yes", **keys)
    assert deployed.returncode == 0, deployed.stdout + local.logs()
    for words in (
        "READY: ",
        "SAFE: ",
        " an hour idle, ",
        "cluster local: UPDATE_COMPLETE",
        "Deployed\n",
        "0 to 3",
    ):
        assert words in deployed.stdout, deployed.stdout
    assert "Missing permission" not in deployed.stdout
    assert "Not checked" not in deployed.stdout

    budgets = client_of(emulator, "budgets")
    place = {"AccountId": emulator.env()["AWS_ACCESS_KEY_ID"], "BudgetName": "trainyard-local-us-east-1"}
    assert budgets.describe_budget(**place)["Budget"]["BudgetLimit"] == {"Amount": "90000", "Unit": "USD"}
    alerts = budgets.describe_notifications_for_budget(**place)["Notifications"]
    assert [(one["NotificationType"], one["Threshold"]) for one in alerts] == [
        ("ACTUAL", 50.0), ("ACTUAL", 80.0), ("ACTUAL", 100.0), ("FORECASTED", 100.0)
    ]  # fmt: skip

    notified = local.ok("notify", "--test")
    assert "A test message was sent. 2 confirmed, 0 pending" in notified
    assert "team@example.com" in notified

    people_change_without_an_update(local)

    local.edit(r"\n      - name: shared\n(        .*\n)+", "\n")
    # Remove. Without its associations and the repositories, two stacks are empty.
    local.edit(r"    - name: training\n(      .*\n)+", "")
    local.edit(r"  repositories:\n(    .*\n)+", "  repositories: []\n")
    without = local.ok("up", "--no-hello")
    assert "deploying the cluster first" in without
    for part in ("data-links", "images"):
        assert f"{local.name}-{part}: UPDATE_COMPLETE" in without
    assert not re.search(r"^ +(association|repository) ", without, re.MULTILINE)
    assert "PERSISTENT_2 2400 GiB" in without
    assert "PERSISTENT_2 1200 GiB" not in without
    assert "OpenZFS volume home" in without
    assert "OpenZFS volume shared" not in without
    assert re.search(r"cluster\s+local\s+UPDATE_COMPLETE", without), without

    s3 = client_of(emulator, "s3")
    bucket = next(b["Name"] for b in s3.list_buckets()["Buckets"] if "data" in b["Name"].lower())
    s3.put_object(Bucket=bucket, Key="data/set.txt", Body=b"words")

    refused = local.run("down")
    assert refused.returncode == 4
    assert f"s3://{bucket}: 1 object, " in refused.stdout
    assert "--delete-data" in refused.stdout
    status = local.ok("status")
    assert "_COMPLETE" in status and "DELETE" not in status

    refused = local.on_aws("down", "--yes", **keys)
    assert refused.returncode == 4
    assert f"s3://{bucket}: for example data/set.txt" in refused.stdout
    removed = local.on_aws("down", "--yes", "--delete-data", **keys)
    assert removed.returncode == 0, removed.stdout + local.logs()
    before, after = removed.stdout.split("Removed.\n")
    assert "Termination protection is switched off for: local-" in before
    assert f"Deleted, with its data: S3 Bucket {bucket}" in before
    assert re.search(r"FSx FileSystem fs-\w+, Lustre PERSISTENT_2 2400 GiB, 125 MB/s per TiB: \$348.00 a month", after)
    assert "Nothing of 'local' is deployed" in local.on_aws("down", "--yes", **keys).stdout

    gone = local.ok("down", "--delete-data")
    assert "Down." in gone
    assert launch.find(local.state) is None
    assert processes_of(local) == []
    assert "Nothing is up" in local.ok("down")


def test_a_killed_emulator_an_interrupted_run_and_a_third(local_of: LocalOf) -> None:
    """The emulator dies, then the user presses Ctrl-C: each is reported in words, and the next run goes on.

    Loopback is the only network, so that whatever else is contacted fails. With the largest environment, and with what
    staging.yaml has: no internet access, a login node, an external database. Other tests deploy guide-2xg5 (by the
    documented commands), dev and prod (tests/promotion); none deploys staging and megatron-2xp5 as they are.
    """
    local = local_of("jakarta-80xp5e")
    local.edit(r"(?m)^network:$", "network:\n  egress: endpoints-only")
    local.edit(r"(?m)^  queues:$", "  login_nodes: {instance_type: m7i.large}\n  queues:")
    local.edit(r"(?m)^  slurm:$", f"  slurm:\n    accounting: {DATABASE}")
    with loopback_alone() as local.prefix:
        with local.until("network: CREATE_COMPLETE", "up", "--no-hello") as run:
            emulator = launch.find(local.state)
            assert emulator is not None
            for pid in emulator.pids:
                os.kill(pid, signal.SIGKILL)
        assert run.process.returncode == 4, run.output
        assert "Traceback" not in run.output
        with local.until("cluster: CREATE_IN_PROGRESS", "up", "--no-hello") as run:
            time.sleep(2)
            run.process.send_signal(signal.SIGINT)
        assert run.process.returncode == 130, run.output
        assert "Traceback" not in run.output
        third = local.ok("up", "--no-hello")
        assert re.search(rf"cluster\s+{local.name}\s+CREATE_COMPLETE", third)
        assert re.search(r"\b0 NAT gateways, 1\d endpoints", third)
        assert re.search(r"p5e\.48xlarge x 0 to 80.*EFA.*cr-[0-9a-f]+", third), third
        assert third.count("Lustre PERSISTENT_1") == 3
        assert "stopped without a destroy" in local.ok("down", "--force").replace("\n", " ")
    assert launch.find(local.state) is None
