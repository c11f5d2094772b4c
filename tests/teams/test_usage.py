"""`trainyard cost` on a laboratory: genuine slurmctld, slurmdbd, MariaDB and sacct, with a month computed by hand."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import validate_parameters

from local.slurm import Laboratory, Timeouts, make
from ops.report import html
from ops.usage.records import Usage, fetch, priced
from ops.usage.report import report, table
from ops.validation.head_node import HeadNode
from settings import Environment, load
from settings.model.cost import Cost
from tests.slurm.conftest import lab_machine, running
from tests.teams import month

__all__ = ["lab_machine"]
pytestmark = pytest.mark.lab
ROOT = Path(__file__).resolve().parents[2]
BUNDLE = "/opt/trainyard/current"
# USD an hour: 10 for each of eight GPUs.
PRICES = {"p5.48xlarge": 80.0, "c7i.xlarge": 0.2}


def environment_of_the_month() -> Environment:
    """The local environment with a queue whose nodes jobs share, the model of the month, and round prices."""
    local = load(ROOT / "environments" / "local.yaml")
    gpu, cpu = local.cluster.queues
    cluster = local.cluster.model_copy(update={"queues": (gpu.model_copy(update={"exclusive": False}), cpu)})
    model = load(ROOT / "environments" / "jakarta-80xp5e.yaml").models[0]
    return local.model_copy(
        update={
            "cluster": cluster,
            "cost": Cost(prices=PRICES),
            "models": (model.model_copy(update={"name": "vision", "queue": "gpu"}),),
        }
    )


class Direct(HeadNode):
    """Runs requests as the document does, without Systems Manager."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory, self.instance, self.longest = laboratory, "head", 0

    def ask(self, *words: str) -> dict[str, Any]:
        done = self.laboratory.run(["bash", f"{BUNDLE}/usage/request.sh", *words], user="root")
        self.longest = max(self.longest, len(done.stdout))
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture(scope="module")
def usage_lab(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """Two GPU nodes, and two nodes that are powered down; with the records of the month."""
    plan = make(
        environment_of_the_month(),
        powered_down=True,
        timeouts=Timeouts(slurmd_s=20, message_s=20, kill_wait_s=2),
        slurm={"AccountingStoreFlags": "job_comment"},
        binds={BUNDLE: str(ROOT / "cluster_assets")},
    )
    with running(tmp_path_factory.mktemp("usage") / "lab", plan) as laboratory:
        laboratory.write("/opt/trainyard/settings.json", json.dumps(plan.settings()), user="root")
        month.fill(laboratory)
        yield laboratory


@pytest.fixture(scope="module")
def october(usage_lab: Laboratory) -> Usage:
    """The report of October 2026."""
    found = fetch(Direct(usage_lab), int(month.SINCE.timestamp()), int(month.UNTIL.timestamp()), 100)
    return priced(usage_lab.plan.environment, found)


def total(found: Usage, **wanted: str) -> tuple[float, float]:
    """GPU hours and USD of the rows that have these values."""
    rows = [row for row in found.rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return round(sum(row.gpu_hours for row in rows), 3), round(sum(row.usd or 0 for row in rows), 3)


# Computed by hand from tests/teams/month.py: GPUs x hours, and node hours x USD.
#   job 1   16 GPUs x 48 h = 768      96 node h     job 6   8 x (10 - 2 suspended) = 64     8
#   job 2    8 x 6 = 48                6  failed    job 7   8 x 5 = 40                      5  interrupted
#            8 x 10 = 80              10            job 8   8 x 4 (to the end) = 32         4  running
#   job 3    2 x 12 = 24   2/8 x 12 =  3  failed    job 10  0; 48 of 192 CPUs x 8 h         2
#   job 4    4 x 12 = 48   4/8 x 12 =  6  cancelled job 11  0; 2 of 4 CPUs x 2 h (clipped)  1 of c7i
#   job 5    8 x 12 (to the end) = 96 12  failed
HAND = {
    "vision": (768 + 48 + 80 + 96 + 64, 80.0 * (96 + 6 + 10 + 12 + 8 + 2)),
    "speech": (24 + 48 + 40, 80.0 * (3 + 6 + 5) + 0.2 * 1),
    "(none)": (32, 80.0 * 4),
}


@pytest.mark.parametrize("team", HAND)
def test_month_of_a_team_is_as_computed_by_hand(october: Usage, team: str) -> None:
    assert total(october, team=team) == HAND[team]


def test_month_in_all(october: Usage) -> None:
    assert total(october) == (1200, 80 * 152 + 0.2)
    assert october.runs == 11, "two runs of job 2; neither the one that waits nor September's"


@pytest.mark.parametrize(
    ("outcome", "hours"),
    [("failed", 48 + 24 + 96), ("cancelled", 48), ("interrupted", 40), ("running", 32), ("completed", 768 + 80 + 64)],
)
def test_outcomes(october: Usage, outcome: str, hours: float) -> None:
    assert total(october, outcome=outcome)[0] == hours


def test_users_and_models(october: Usage) -> None:
    """The model of job 1 is in its comment, that of job 2 is its name."""
    assert total(october, user="grace") == HAND["speech"]
    assert total(october, user="ubuntu") == (32, 320)
    assert total(october, model="vision") == (768 + 48 + 80, 80.0 * (96 + 6 + 10))


def test_nodes_without_jobs(october: Usage) -> None:
    """p5-1 was off for 240 of 744 h, p5-2 drained for 24 h with 8 h of a job in it; c7i-1 was up for 2.5 h."""
    found: dict[tuple[str, str], Any] = {
        (part.kind, part.resource): (round(part.node_hours, 3), part.usd) for part in october.unused
    }
    up = (744 - 240) + 744
    assert found == {
        ("idle", "gpu/p5"): (up - 152 - 16, pytest.approx(80 * (up - 152 - 16))),
        ("idle", "cpu/c7i"): (1.5, pytest.approx(0.3)),
        ("drained or down", "gpu/p5"): (16, pytest.approx(80 * 16)),
    }


def test_days(october: Usage) -> None:
    """Job 1 ran on two days; job 5 and 8 on the last one."""
    days = {(day, team): gpus for day, team, gpus, _ in october.days}
    assert days["2026-10-01", "vision"] == days["2026-10-02", "vision"] == 384
    assert days["2026-10-31", "vision"] == 96 and days["2026-10-31", "(none)"] == 32
    assert sum(days.values()) == pytest.approx(1200)


def test_hostile_name_is_text_in_every_format(october: Usage) -> None:
    shown = html(report(october, "job"))
    assert "<script>alert(1)" not in shown and "&lt;script&gt;alert(1)" in shown
    assert "http" not in shown.split("<title>")[1].split("<script>")[0], "the page loads nothing"
    rows = list(csv.DictReader(io.StringIO(table(october, "job"))))
    (row,) = (row for row in rows if row["job"] == "8")
    assert row["name"].startswith("'=cmd|") and row["user"] == "ubuntu"
    assert "999" not in {row["job"] for row in rows}, "a line break in a name makes no record"
    assert sum(float(row["usd"]) for row in rows) == pytest.approx(12160.2 + 86400.3 + 1280, abs=0.01)


def test_first_half_and_second_half_are_the_month(usage_lab: Laboratory, october: Usage) -> None:
    middle = month.at("10-10 05:00")
    halves = [
        priced(usage_lab.plan.environment, fetch(Direct(usage_lab), since, until, 0))
        for since, until in ((int(october.since), middle), (middle, int(october.until)))
    ]
    for index in (0, 1):
        assert sum(total(half)[index] for half in halves) == pytest.approx(total(october)[index], abs=0.01)


def test_ten_thousand_jobs(usage_lab: Laboratory, record_property: Callable[[str, object], None]) -> None:
    """All are counted, in pages that Systems Manager does not cut. docs/cost.md has the measured time."""
    since, until = month.many(usage_lab, 10_000)
    node = Direct(usage_lab)
    begun = time.monotonic()
    found = fetch(node, since, until, 20)
    took = time.monotonic() - begun
    everything = fetch(node, since, until, 20_000)
    record_property("seconds", round(took, 1))
    assert found["runs"] == sum(row[5] for row in found["rows"]) == 10_000
    assert sum(row[6] for row in found["rows"]) == pytest.approx(80_000)
    assert len(found["jobs"]) == 20 and len(everything["jobs"]) == 10_000
    assert len({row[0] for row in found["rows"]}) == 7 and len({row[1] for row in found["rows"]}) == 50
    assert node.longest < 24_000


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("report", "9", "5", "0"), "is not before"),
        (("report", "1", "2"), "report takes SINCE UNTIL JOBS"),
        (("page", "0" * 32, "1"), "no longer kept"),
        (("report", "1", "2", "$(id)"), "not allowed"),
        (("shell",), "invalid choice"),
    ],
)
def test_refused(usage_lab: Laboratory, words: tuple[str, ...], reason: str) -> None:
    done = usage_lab.run(["bash", f"{BUNDLE}/usage/request.sh", *words], user="root", check=False)
    assert done.returncode != 0 and reason in done.stderr


def test_folder_of_the_report_is_slurms_alone(usage_lab: Laboratory) -> None:
    """request.sh starts usage.py as slurm, which must be able to write there."""
    fetch(Direct(usage_lab), int(month.SINCE.timestamp()), int(month.UNTIL.timestamp()), 100)
    assert usage_lab.output("stat -c %U:%a /var/lib/trainyard/usage", user="root") == "slurm:700"


def test_job_of_less_than_a_second_is_a_run(usage_lab: Laboratory) -> None:
    """Such are the first jobs of a validation on the emulated AWS."""
    begun = int(time.time()) - 1  # a report covers a second at least
    usage_lab.run("sbatch --wait --gpus=1 --job-name=short --wrap true")

    def known() -> bool:
        return "short" in {job["name"] for job in fetch(Direct(usage_lab), begun, int(time.time()), 5)["jobs"]}

    usage_lab.wait(known, "the job's record", seconds=60)


# --- budgets and idle jobs

PROGRAMS = f"{BUNDLE}/usage"
FAKE_AWS = """#!/usr/bin/env python3
import json, sys
open("/run/fake/requests", "a").write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit(open("/run/fake/status").read().strip() == "fails")
"""


def budgets(laboratory: Laboratory, moment: str) -> list[dict[str, str]]:
    """Run the check of budgets as if it were October; returns the messages, as botocore's model of SNS takes them."""
    usage = {"hourly": {"gpu/p5": 80.0, "cpu/c7i": 0.2}, "topic_arn": "arn:aws:sns:us-east-1:000000000000:alerts"}
    settings = laboratory.plan.settings()
    teams = [{"name": "vision", "monthly_usd": 10_000}, {"name": "speech", "monthly_usd": 1_000_000}]
    people = {"teams": teams, "budgets": usage}
    laboratory.run("rm -f /run/fake/requests", user="root")
    program = (
        f"import sys, json, pathlib; sys.path.insert(0, '{PROGRAMS}'); import budgets\n"
        f"budgets.check(*json.load(sys.stdin), pathlib.Path('/run/fake'), {month.at(moment)})"
    )
    done = laboratory.run(
        ["env", "PATH=/run/fake/bin:/opt/slurm/bin:/usr/bin:/bin", "python3", "-c", program],
        user="root", stdin=json.dumps([settings, people]),
    )  # fmt: skip
    text = laboratory.run("cat /run/fake/requests", user="root", check=False).stdout
    model = botocore.session.get_session().get_service_model("sns").operation_model("Publish").input_shape
    sent = []
    for line in text.splitlines():
        verb, *words = json.loads(line)[1:]
        given = dict(zip(words[::2], words[1::2], strict=True))
        names = {"TopicArn": "--topic-arn", "Subject": "--subject", "Message": "--message"}
        request = {name: given[flag] for name, flag in names.items()}
        assert model is not None
        validate_parameters(request, model)
        assert verb == "publish" and given["--region"] == "us-east-1"
        sent.append(request)
    return [{**request, "log": done.stderr} for request in sent]


def test_each_level_of_a_budget_is_published_once(usage_lab: Laboratory) -> None:
    """vision has used 24 x 80 USD at noon of the 1st, 96 x 80 on the 4th, 120 x 80 on the 15th, 134 x 80 in the end."""
    usage_lab.write("/run/fake/bin/aws", FAKE_AWS, user="root", mode=0o755)
    usage_lab.write("/run/fake/status", "ok", user="root")
    subjects = []
    for moment in ("10-01 12:00", "10-04 00:00", "10-04 00:10", "10-15 00:00", "10-31 23:59", "10-31 23:59"):
        subjects.append([one["Subject"] for one in budgets(usage_lab, moment)])
    level = "vision: {} % of the monthly budget"
    assert subjects == [[], [level.format(50)], [], [level.format(80)], [level.format(100)], []]
    assert budgets(usage_lab, "11-01 12:00") == [], "November begins with 0 %"


def test_alert_that_fails_is_tried_again(usage_lab: Laboratory) -> None:
    usage_lab.run("rm -f /run/fake/budgets.json", user="root")
    usage_lab.write("/run/fake/bin/aws", FAKE_AWS, user="root", mode=0o755)
    usage_lab.write("/run/fake/status", "fails", user="root")
    (failed,) = budgets(usage_lab, "10-04 00:00")
    assert "not published, again in an hour: vision: 50 %" in failed["log"]
    usage_lab.write("/run/fake/status", "ok", user="root")
    (sent,) = budgets(usage_lab, "10-04 00:00")
    assert "has used $7,680 of $10,000 since 2026-10-01 (UTC): 77% of its budget" in sent["Message"]


IDLE_S = 4


def idle_round(laboratory: Laboratory) -> None:
    """One round of the policy, with a limit and a grace of seconds."""
    people = {"qos": [{"name": "interactive", "idle_gpu_minutes": IDLE_S / 60}, {"name": "normal"}]}
    program = (
        f"import sys, json, pathlib, time; sys.path.insert(0, '{PROGRAMS}'); import idle_gpus\n"
        "idle_gpus.GRACE_S = 1\n"
        "idle_gpus.check(*json.load(sys.stdin), pathlib.Path('/run/idle'), time.time())"
    )
    given = json.dumps([laboratory.plan.settings(), people])
    laboratory.run(["python3", "-c", program], user="root", stdin=given)


def test_idle_interactive_job_is_warned_and_ends_and_no_other(usage_lab: Laboratory) -> None:
    lab = usage_lab
    lab.run("sacctmgr -i add qos interactive", user="root")
    submit = "sbatch --parsable --gpus=1 --wrap 'sleep 600'"
    batch = lab.output(f"{submit} --qos=interactive", user="ada")
    begun: dict[str, subprocess.Popen[str]] = {}
    for name, options in {"idle": "--qos=interactive", "busy": "--qos=interactive", "other": ""}.items():
        command = f"salloc --kill-command --job-name={name} {options} --gpus=1 sleep 600"
        begun[name] = subprocess.Popen(
            lab.line(command, user="ada"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/"
        )
    query = "squeue --noheader --states=RUNNING --format='%j %i'"
    lab.wait(lambda: len(lab.output(query).splitlines()) == 4, "four jobs run", seconds=60)
    jobs = dict(line.split() for line in lab.output(query).splitlines())
    try:
        # The GPU of the job `busy` works.
        details = lab.output(f"scontrol --details show job {jobs['busy']}")
        node, index = re.findall(r"Nodes=(\S+) .*\(IDX:(\d)\)", details)[0]
        gpus = json.loads(lab.output("cat /etc/lab/gpus.json", node=node))
        gpus["gpus"][int(index)]["utilization.gpu"] = 90
        lab.write("/etc/lab/gpus.json", json.dumps(gpus), node=node, user="root")
        idle_round(lab)
        assert lab.output("cat /run/idle/idle-gpus.json", user="root") == "{}", "without figures there is no warning"

        for one in lab.plan.compute:
            file = f"/shared/monitoring/gpus/{one.name}.json"
            sampler = f"exec timeout 60 python3 {PROGRAMS}/gpu_use.py --file {file} --interval 0.5"
            begun[one.name] = subprocess.Popen(lab.line(sampler, node=one.name, user="root"), text=True, cwd="/")
        time.sleep(IDLE_S + 2)
        idle_round(lab)
        assert list(json.loads(lab.output("cat /run/idle/idle-gpus.json", user="root"))) == [
            f"{jobs['idle']}@{epoch(lab, jobs['idle'])}"
        ], "one warning"
        assert lab.job(jobs["idle"])["JobState"] == "RUNNING", "a warning comes first"
        time.sleep(1.1)
        idle_round(lab)
        lab.wait_for_job(jobs["idle"], states=("CANCELLED",), seconds=60)
        assert "All GPUs of job" in begun["idle"].communicate(timeout=60)[1]
        assert "AdminComment=trainyard:" in lab.output(f"scontrol show job {jobs['idle']}")
        assert {lab.job(job)["JobState"] for job in (batch, jobs["busy"], jobs["other"])} == {"RUNNING"}
    finally:
        lab.run("scancel --user=ada", user="ada")
        for process in begun.values():
            process.terminate()
            process.communicate(timeout=60)


def epoch(laboratory: Laboratory, job: str) -> str:
    """When a job started, in seconds since 1970."""
    return laboratory.output(f"SLURM_TIME_FORMAT=%s squeue --noheader --jobs={job} --Format=StartTime:.20").strip()
