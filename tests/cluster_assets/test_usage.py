"""The programs of usage/ without Slurm: parts of nodes, the policy on idle GPUs, and the step that starts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from settings.model.cluster import Slurm
from settings.model.teams import Qos, Team
from tests.cluster_assets.conftest import ASSETS
from tests.cluster_assets.test_settings import SCHEMA, build
from tests.cluster_config.builder import environment
from tests.cluster_config.references import references
from tests.settings.examples import ACCOUNTING
from trainyard.cluster_config import render
from trainyard.cluster_people import cluster_people
from trainyard.head_node_documents import USAGE_REQUEST

sys.path.insert(0, str(ASSETS / "usage"))

import budgets
import gpu_use
import idle_gpus
import node_hours
import usage

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

NODES = {"n1": node_hours.Machine(192, 8), "n2": node_hours.Machine(192, 8), "c1": node_hours.Machine(4, 0)}
UNITS = "/etc/systemd/system"


def run_of(nodes: list[str], gpus: int, cpus: int) -> node_hours.Run:
    return node_hours.Run("1", "ada", "vision", "x", "x", "COMPLETED", (0, 3600), 3600, gpus, cpus, nodes)


# --- parts of nodes


@pytest.mark.parametrize(
    ("nodes", "gpus", "cpus", "share"),
    [
        (["n1"], 2, 192, {"n1": 0.25}),
        (["n1", "n2"], 16, 4, {"n1": 1, "n2": 1}),
        (["n1"], 0, 48, {"n1": 0.25}),
        (["c1"], 0, 1, {"c1": 0.25}),
        (["n1", "c1"], 4, 98, {"n1": 0.5, "c1": 0.5}),
        (["gone"], 8, 192, {"gone": 1}),
    ],
)
def test_part_of_a_node(nodes: list[str], gpus: int, cpus: int, share: dict[str, float]) -> None:
    """By GPUs if the job has some, otherwise by CPUs; a node that the cluster no longer has counts as a whole."""
    one = run_of(nodes, gpus, cpus)
    node_hours.share_nodes(one, NODES, counted=True)
    assert one.share == pytest.approx(share)


def test_gpus_that_slurm_does_not_count_follow_from_cpus() -> None:
    one = run_of(["n1"], 0, 96)
    node_hours.share_nodes(one, NODES, counted=False)
    assert (one.gpus, one.share) == (4, {"n1": 0.5})


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [("billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4", 4), ("cpu=8,gres/gpumem=9", 0), ("", 0)],
)
def test_gpus_of_tres(tres: str, gpus: int) -> None:
    assert usage.amount(tres, "gres/gpu") == gpus


def test_overlapping_spans_count_once() -> None:
    assert node_hours.length([(0, 10), (5, 12), (20, 21), (1, 2)]) == 13


def test_outcome_of_every_state_that_ends_a_record() -> None:
    """sacct(1), job state codes; PENDING has no record here, RUNNING and SUSPENDED go on."""
    states = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REQUEUED RESIZING REVOKED"
    assert set(node_hours.OUTCOMES) == {*states.split(), "TIMEOUT"}


def test_pages_of_a_large_report_are_kept_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = os.urandom(40_000).hex()
    monkeypatch.setattr(usage, "collect", lambda *_: {"x": text})
    old = tmp_path / "old.report"
    old.write_text("x")
    os.utime(old, (0, 0))
    first = usage.report({}, ("1", "2", "0"), tmp_path)
    assert first["pages"] > 1 and len(json.dumps(first)) < 24_000 and not old.exists()
    second = usage.page({}, (first["digest"], "1"), tmp_path)
    assert len(json.dumps(second)) < 24_000


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        ("report 1 2 20", True),
        (f"page {'0' * 32} 3", True),
        ("report 1 2 20; id", False),
        ("report 1 2 $(id)", False),
        ("page ../../etc/shadow 1", False),
        ("report 1 2 20\n id", False),
        ("shell", False),
    ],
)
def test_document_takes_the_two_requests_only(request_: str, allowed: bool) -> None:
    assert bool(re.fullmatch(USAGE_REQUEST, request_)) is allowed


# --- budgets


def test_alert_names_what_is_unknown() -> None:
    report = {
        "rows": [["vision", "a", "m", "completed", "gpu/p5", 1, 8, 10], ["vision", "a", "m", "failed", "x/y", 1, 8, 1]]
    }
    amounts, partial = budgets.spent(report, {"gpu/p5": 80.0, "x/y": None})
    assert (amounts["vision"], partial) == (800, {"vision"})
    subject, text = budgets.message("vision", 80, 800, 1000, month="2026-10", partial=True)
    assert subject == "vision: 80 % of the monthly budget" and "at least $800 of $1,000" in text


# --- idle GPUs


@pytest.mark.parametrize(
    ("idle_from", "warned", "now", "decision"),
    [
        (0, None, 599, "forget"),
        (0, None, 600, "warn"),
        (0, 600, 899, "wait"),
        (0, 600, 900, "end"),
        (700, 600, 900, "forget"),
        (700, 600, 1300, "warn"),
    ],
    ids=["not yet", "warning first", "grace", "end", "it worked after the warning", "a new warning after that"],
)
def test_decision(idle_from: float, warned: float | None, now: float, decision: str) -> None:
    assert idle_gpus.decide(idle_from, 600, warned, now) == decision


def test_batch_jobs_are_left_alone_but_for_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, users = tmp_path / "scripts/abc/jobs/notebook.sbatch", tmp_path / "home/jobs/notebook.sbatch"
    for file in (own, users):
        file.parent.mkdir(parents=True)
        file.touch()
    folders = [tmp_path / "scripts"]

    def judged(flag: str, command: object) -> bool:
        return idle_gpus.interactive({"BatchFlag": flag, "Command": str(command)}, folders)

    assert judged("0", "") and judged("1", own)
    (users.parent / "loop").symlink_to("loop")
    assert not judged("1", users.parent / "loop" / "notebook.sbatch")
    assert not judged("1", users) and not judged("1", own.with_name("train.sbatch")) and not judged("1", "")
    monkeypatch.setattr(Path, "stat", lambda _: os.stat_result((0o100644, 0, 0, 1, 1000, 1000, 0, 0, 0, 0)))
    assert not judged("1", own), "a file that is not root's"


def figures(folder: Path, **changes: Any) -> None:  # noqa: ANN401
    content = {"time": 1000.0, "busy": [100.0, 200.0, 300.0], "minors": [2, 1, 0], **changes}
    (folder / "n1.json").write_text(json.dumps(content))


JOB = {"JobID": "7", "NodeList": "n1", "StartTime": "50"}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job 7 has the GPU of index 0 on n1."""
    text = "JobId=7\n   JOB_GRES=gpu:h100:1\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:0)\n"
    # As a user may write them in a comment.
    for nodes in ("n[1-999999999]", "n[1-9999][1-9999]", "n[1-²]", "n" + "[1]" * 1100):
        text += f"  Nodes={nodes} GRES=gpu(IDX:0)\n"
    text += "  Nodes=n1 GRES=gpu(IDX:-)\n  Nodes=n1 GRES=gpu(IDX:0-99999999)\n"
    monkeypatch.setattr(idle_gpus, "run", lambda *_: text.encode())


@pytest.mark.usefixtures("gpus")
def test_busier_of_device_number_and_index_counts(tmp_path: Path) -> None:
    """The device 0 is the third GPU of nvidia-smi."""
    figures(tmp_path)
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) == 300
    assert idle_gpus.idle_since({**JOB, "StartTime": "900"}, tmp_path, 1000) == 900


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    "changes", [{"time": 700.0}, {"busy": [None, 1, 1]}, {"busy": []}, {"minors": []}, {"time": "x"}]
)
def test_missing_figure_is_not_idle(tmp_path: Path, changes: dict[str, Any]) -> None:
    figures(tmp_path, **changes)
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) is None


@pytest.mark.usefixtures("gpus")
def test_figures_are_roots_own_file(tmp_path: Path) -> None:
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) is None, "no file"
    figures(tmp_path)
    (tmp_path / "n1.json").rename(tmp_path / "x")
    (tmp_path / "n1.json").symlink_to(tmp_path / "x")
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) is None, "a link"
    (tmp_path / "n1.json").unlink()
    figures(tmp_path)
    os.chown(tmp_path / "n1.json", 1000, 1000)
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) is None, "a user's file"


def test_job_without_gpus_is_not_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_gpus, "run", lambda *_: b"JobId=7\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=\n")
    assert idle_gpus.idle_since(JOB, tmp_path, 1000) is None


def test_warning_that_did_not_arrive_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning is tried again in each round."""
    calls: list[str] = []

    def call(*line: str, **_: str) -> bool:
        calls.append(" ".join(line[:2]))
        return False

    row = {**JOB, "QOS": "interactive", "BatchFlag": "0", "Command": "", "UserName": "ada", "Partition": "gpu"}
    monkeypatch.setattr(idle_gpus, "call", call)
    monkeypatch.setattr(idle_gpus, "table", lambda *_: [row])
    monkeypatch.setattr(idle_gpus, "idle_since", lambda *_: 0.0)
    settings = {"bases": {"shared": str(tmp_path)}, "folders": {}}
    people = {"qos": [{"name": "interactive", "idle_gpu_minutes": 5}]}
    for now in (1000, 2000, 3000):
        idle_gpus.check(settings, people, tmp_path, now)
    assert calls == ["scontrol notify"] * 3


@pytest.mark.parametrize(
    ("output", "before", "busy"),
    [
        ("0, 0\n1, 90\n", [], [5.0, 100.0]),
        ("0, 5\n1, 6\n", [50.0, 60.0], [50.0, 100.0]),
        ("0, [N/A]\n", [50.0], [None]),
        ("0, 0\n", [None], [100.0]),
    ],
    ids=["the first sample: busy since the start", "at most 5 %", "MIG has no figure", "a figure that came back"],
)
def test_sample(monkeypatch: pytest.MonkeyPatch, output: str, before: list[float], busy: list[float]) -> None:
    done = subprocess.CompletedProcess([], 0, output)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert gpu_use.sample(before, 100.0, 5.0) == busy  # type: ignore[arg-type]


@pytest.mark.parametrize("output", ["", "1, 0\n0, 0\n"])
def test_sample_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    done = subprocess.CompletedProcess([], 0, output)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(OSError, match="nvidia-smi lists"):
        gpu_use.sample([], 100.0, 5.0)


def test_device_numbers_in_the_order_of_pci_addresses(tmp_path: Path) -> None:
    for address, minor in (("0000:10:1c.0", 1), ("0000:20:1c.0", 0)):
        file = tmp_path / "proc/driver/nvidia/gpus" / address / "information"
        file.parent.mkdir(parents=True)
        file.write_text(f"Model: H100\nDevice Minor: \t {minor}\n")
    assert gpu_use.minors(tmp_path, 2) == [1, 0]
    assert gpu_use.minors(tmp_path, 3) == [0, 1, 2], "not the GPUs that nvidia-smi lists"


# --- settings and the step

TEAMS: dict[str, Any] = {"teams": [{"name": "vision", "monthly_usd": 1000}], "observability": {"mode": "cloudwatch"}}
IDLE: dict[str, Any] = {"qos": [{"name": "interactive", "idle_gpu_minutes": 30}]}


def test_a_later_budget_or_idle_policy_changes_people_json_and_the_timers_run_already() -> None:
    """A change of settings.json alone does not reach a running head node."""
    assert "usage" not in build(environment())
    assert build(environment(teams=[Team(name="vision")], qos=[Qos(name="high")]))["usage"] == {"idle_gpus": False}
    both = environment(**TEAMS, **IDLE)
    jsonschema.validate(build(both), SCHEMA)
    assert build(both)["usage"] == {"idle_gpus": True}
    people: Any = cluster_people(both)
    topic = "arn:aws:sns:us-east-1:123456789012:trainyard-small-notifications"
    assert people["budgets"] == {"hourly": {"cpu/c7i": 0.1785}, "topic_arn": topic}
    assert "budgets" not in (cluster_people(environment(**IDLE)) or {})


def test_records_have_gpus_and_comments_if_the_accounting_is_the_environments() -> None:
    """A database that existed before keeps its configuration; the environment file can set both parameters."""

    def parameters(accounting: Any = False, **changes: Any) -> dict[str, str]:  # noqa: ANN401
        made = environment(**changes)
        slurm = Slurm(accounting=accounting)
        made = made.model_copy(update={"cluster": made.cluster.model_copy(update={"slurm": slurm})})
        section: Any = render(made, references(made))["Scheduling"]
        return {k: v for item in section["SlurmSettings"]["CustomSlurmSettings"] for k, v in item.items()}

    wanted = {"AccountingStorageTRES": "gres/gpu", "AccountingStoreFlags": "job_comment"}
    assert wanted.items() <= parameters(True).items()
    assert wanted.items() <= parameters(teams=[Team(name="vision")]).items()
    assert not wanted.keys() & (parameters().keys() | parameters(ACCOUNTING).keys())


def step(node: Node, settings: dict[str, Any], role: str) -> list[str]:
    """Run the step alone, which must succeed without a warning; returns the units that are there."""
    file = node.fake / "settings.json"
    file.write_text(json.dumps(settings))
    variables = os.environ | node.environment | {"TRAINYARD_SETTINGS": str(file), "TRAINYARD_ROLE": role}
    words = ["bash", str(ASSETS / "steps" / "usage.sh")]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert "WARNING" not in done.stderr, done.stderr
    return sorted(path.name for path in node.path(UNITS).glob("trainyard-*"))


def usage_of(idle: bool) -> dict[str, Any]:
    return {"usage": {"idle_gpus": idle}}


def test_timers_of_the_head_node_come_and_go_with_the_settings(node: Node, settings: dict[str, Any]) -> None:
    node.path(UNITS).mkdir(parents=True, exist_ok=True)
    assert step(node, settings, "head-configured") == []
    both = settings | usage_of(idle=False)
    names = [f"trainyard-{name}.{kind}" for name in ("budgets", "idle-gpus") for kind in ("service", "timer")]
    assert step(node, both, "updated") == names
    unit = node.path(f"{UNITS}/trainyard-budgets.service").read_text()
    assert (
        "usage/budgets.py --settings /opt/trainyard/settings.json --people /opt/slurm/etc/trainyard/people.json" in unit
    )
    assert "OnUnitInactiveSec=60\n" in node.path(f"{UNITS}/trainyard-idle-gpus.timer").read_text()
    assert step(node, settings, "updated") == []
    assert "disable --now trainyard-budgets.timer" in node.calls("systemctl")


def test_nodes_with_gpus_report_them_if_a_policy_needs_it(node: Node, settings: dict[str, Any]) -> None:
    node.path(UNITS).mkdir(parents=True, exist_ok=True)
    node.path("/etc/parallelcluster/slurm_plugin").mkdir(parents=True)
    node.path("/etc/parallelcluster/slurm_plugin/slurm_nodename").write_text("gpu-dy-p5-7\n")
    assert step(node, settings | usage_of(idle=False), "compute-configured") == []
    assert step(node, settings | usage_of(idle=True), "compute-configured") == ["trainyard-gpu-use.service"]
    unit = node.path(f"{UNITS}/trainyard-gpu-use.service").read_text()
    assert "gpu_use.py --file /shared/monitoring/gpus/gpu-dy-p5-7.json" in unit and "Restart=always" in unit
    assert step(node, settings, "compute-configured") == []
