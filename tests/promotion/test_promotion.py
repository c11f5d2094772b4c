"""A promotion from dev to prod in emulated AWS accounts: every gate stops one run, and what it stops stays untouched.

The steps build on each other; each is one call of the command, made once for all tests.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.exceptions import ClientError

from local.control import Control
from local.emulator import launch
from local.pipeline.definition import ActionFailed, Pipeline, assume, read
from local.pipeline.prerequisites import expected
from local.slurm.remote import ensure
from tests.promotion.conftest import DEV, PROD, REGION, SKIPPED, TOOLS, Promotion
from tests.slurm.planted import FIGURES, file_with, gpus

pytestmark = pytest.mark.e2e

RESERVATION = "cr-0123456789abcdef1"
LOST = "gpu-dy-g5-2"


@pytest.fixture(scope="session")
def promoted(promotion: Promotion, tmp_path_factory: pytest.TempPathFactory) -> Promotion:
    """From nothing to prod: stopped by dev's validation, by a disruption, by prod's preflight, by an approval."""
    seeds = tmp_path_factory.mktemp("seeds") / "seeds.json"
    given = expected(promotion.checkout)
    reserved = given[PROD].pop("capacity_reservations")
    assert [item["id"] for item in reserved] == [RESERVATION]
    seeds.write_text(json.dumps(given))
    # A first deployment makes roles, which is a change of permissions.
    options = ("--seeds", str(seeds), "--approve", "dev/Approve-Permissions")
    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(promotion.step, "planted faults", 1, *options)
        while launch.find(promotion.state) is None and not step.done():
            time.sleep(1)
        # While dev is deployed: the laboratory that its validation would start.
        laboratory = ensure(promotion.state, "dev", DEV)
        nodes = [node.name for node in laboratory.plan.compute if node.gpus]
        with gpus(laboratory, LOST, shown=0), file_with(laboratory, FIGURES, {"mounts": {"/fsx": 90}}, *nodes):
            step.result()
    # Then a change that drains dev's nodes. Without the first line, ParallelCluster refuses the second while the fleet
    # runs.
    promotion.edit("environments/dev.yaml", r"(?m)^cluster:$", "cluster:\n  updates: {stop_fleet: when-needed}")
    promotion.edit("environments/dev.yaml", r"scaledown_minutes: \d+", "scaledown_minutes: 25")
    promotion.step("disruptive", 3)
    promotion.step("no reservation", 1, "--resume", "--approve", "dev/Approve-Disruption")
    emulator = launch.find(promotion.state)
    assert emulator is not None
    Control(emulator).seeds({"capacity_reservations": reserved}, PROD, REGION)
    promotion.step("not approved", 3, "--resume", "--approve", "prod/Approve-Permissions")
    promotion.step("succeeded", 0, "--resume", "--approve", "prod/Approve")
    return promotion


def test_planted_faults_stop_before_prod(promoted: Promotion) -> None:
    """A node without its GPU and a slow file system: dev stays deployed, and prod is not begun."""
    step = promoted.steps["planted faults"]
    assert step.outcomes["dev/cluster.Deploy"] == "succeeded"
    assert step.stopped_at() == ["dev/Validation"]
    assert step.prod == {"prod-promotion"} and not [key for key in step.outcomes if key.startswith("prod/")]
    failed = f"scan on {LOST}, hello-gpu on gpu/g5, gpu-check on {LOST}, storage on /fsx from gpu/g5"
    assert f"FAILED (simulated): {failed} (" in step.output
    assert "write 90 MB/s, floor 120" in step.output


def test_disruption_stops_for_its_approval(promoted: Promotion) -> None:
    step = promoted.steps["disruptive"]
    assert step.outcomes["dev/Approve-Permissions"] == "succeeded", "permissions are the same"
    assert step.stopped_at() == ["dev/Approve-Disruption"]
    assert "DISRUPTIVE" in step.output
    assert "dev/cluster.Prepare" not in step.outcomes


def test_approved_disruption_is_deployed(promoted: Promotion) -> None:
    assert promoted.steps["no reservation"].outcomes["dev/cluster.Deploy"] == "succeeded"
    assert promoted.cluster_status(DEV, "dev") == "UPDATE_COMPLETE"


def test_not_ready_preflight_stops_before_prod(promoted: Promotion) -> None:
    step = promoted.steps["no reservation"]
    for action in ("Preflight", "Diff", "cluster.Deploy", "Validation"):
        assert step.outcomes[f"dev/{action}"] == "succeeded"
    assert step.stopped_at() == ["prod/Preflight"]
    assert not [key for key in step.outcomes if key.startswith("prod/") and key.endswith(("Approve", "Deploy"))]
    assert step.prod == {"prod-promotion"}
    assert RESERVATION in step.output
    assert "Simulated promotion stopped at a failure" in step.output


def test_skipped_commands_are_logged(promoted: Promotion) -> None:
    log = (promoted.state / "steps" / "Build" / "Synth" / "log").read_text()
    assert all(f"Left out: {command}" in log for command in SKIPPED)


def test_prod_waits_for_its_approval(promoted: Promotion) -> None:
    """The question shows the verdict; the function passes the approval that a safe verdict does not need."""
    step = promoted.steps["not approved"]
    assert step.outcomes["prod/Approve-Disruption"] == "succeeded"
    assert step.stopped_at() == ["prod/Approve"]
    assert "SAFE" in step.output
    assert "--resume --approve prod/Approve" in step.output
    assert step.prod == {"prod-promotion"}


def test_prod_is_deployed(promoted: Promotion) -> None:
    step = promoted.steps["succeeded"]
    assert set(step.outcomes.values()) == {"succeeded", "left out"}
    parts = ("network", "storage", "data-links", "images", "api", "database", "cluster", "observability")
    assert {f"prod-{name}" for name in parts} <= step.prod
    assert promoted.cluster_status(PROD, "prod") == "CREATE_COMPLETE"


def test_prods_gate_asked_nccl_and_storage(promoted: Promotion) -> None:
    """The file requires both from an image; nothing here measures, and the report says so."""
    log = (promoted.state / "steps" / "prod" / "Validation" / "log").read_text()
    assert "PASSED (simulated): " in log
    for words in ("| nccl | gpu/p5, 2 nodes | all_reduce | simulated: ", "| storage | /fsx from gpu/p5 |"):
        assert f"passed {words}" in log
    assert "skipped" not in log


def test_unknown_approval(promoted: Promotion) -> None:
    promoted.step("unknown approval", 4, "--resume", "--approve", "prod/Approve-All")


@pytest.fixture
def pipeline(promoted: Promotion, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The deployed pipeline, for calls with its roles."""
    emulator = launch.find(promoted.state)
    assert emulator is not None
    for key in [key for key in os.environ if key.startswith("AWS_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.endpoint)
    return read(emulator, "trainyard", promoted.state, [])


def step_session(pipeline: Pipeline, environment: str, purpose: str) -> boto3.Session:
    role = f"arn:aws:iam::{TOOLS}:role/trainyard-{environment}-{purpose}"
    return pipeline.service_session(role, "codebuild", "project/any")


def target_role(account: str, environment: str, purpose: str) -> str:
    return f"arn:aws:iam::{account}:role/{environment}-{purpose}-{REGION}"


def test_step_assumes_only_its_own_target(pipeline: Pipeline) -> None:
    session = step_session(pipeline, "dev", "preflight")
    own = assume(session, target_role(DEV, "dev", "preflight"))
    with pytest.raises(ClientError, match="AccessDenied"):
        own.client("cloudformation").delete_stack(StackName="dev-cluster")
    deploy_role = f"arn:aws:iam::{DEV}:role/cdk-hnb659fds-deploy-role-{DEV}-{REGION}"
    for other in (target_role(DEV, "dev", "validation"), target_role(PROD, "prod", "preflight"), deploy_role):
        with pytest.raises(ActionFailed, match="cannot be assumed"):
            assume(session, other)


def test_step_cannot_replace_what_is_deployed(pipeline: Pipeline) -> None:
    """Synth alone writes its output; a step that runs later cannot put something else in its place."""
    client = step_session(pipeline, "prod", "diff").client("s3")
    client.put_object(Bucket=pipeline.bucket, Key="trainyard/Diff_Outpu/report", Body=b"")
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Bucket=pipeline.bucket, Key="trainyard/Synth_Outp/assembly", Body=b"")


def test_services_assume_roles_of_their_own_only(pipeline: Pipeline) -> None:
    role = f"arn:aws:iam::{TOOLS}:role/trainyard-dev-diff"
    with pytest.raises(ActionFailed, match="does not let codepipeline"):
        pipeline.service_session(role, "codepipeline", pipeline.name)
