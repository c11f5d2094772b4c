"""Three teams compete on a real Slurm: what apply_shares.py sets, and what Slurm then does, seen in sacct."""

from __future__ import annotations

import copy
import time
from datetime import UTC, datetime, timedelta

import pytest

from ops.drift.shares import findings as found_in
from scripts.benchmarks.shares import simulate
from tests.shares.conftest import Cluster

OF_TEAMS = ("nlp/ada", "nlp/grace", "vision/grace", "speech/alan")
NOTHING: dict[str, list[str]] = {"changes": [], "problems": []}


@pytest.fixture(scope="module", autouse=True)
def applied(cluster: Cluster) -> None:
    """The first run has everything to do, and the second one nothing."""
    status, plan, errors = cluster.shares("--plan")
    assert (status, errors) == (1, "")
    objects = {one.subject for one in found_in(plan)}
    assert {"account nlp", "account operations", "qos urgent", "user grace in nlp", "user alan in speech"} <= objects
    assert cluster.shares("--apply")[::2] == (0, "")
    assert cluster.shares("--plan") == (0, NOTHING, "")
    assert cluster.shares("--apply")[::2] == (0, "")


@pytest.fixture(autouse=True)
def idle(cluster: Cluster) -> None:
    """No job of an earlier test."""
    cluster.lab.run("scancel --state=running; scancel --state=pending; true", user="root")
    cluster.lab.wait(lambda: cluster.lab.output(["squeue", "-h"]) == "", "an empty queue")


def test_who_may_submit_where(cluster: Cluster) -> None:
    assert "Invalid account" in cluster.refused("alan", "--account=nlp")
    assert "Invalid qos" in cluster.refused("alan", "--qos=urgent")
    assert "Invalid account" in cluster.refused("grace", "--account=operations")
    jobs = [cluster.submit("grace"), cluster.submit("grace", "--account=nlp"), cluster.submit("ubuntu")]
    jobs.append(cluster.submit("ada", "--account=operations"))
    for job in jobs:
        cluster.lab.wait_for_job(job)
    assert [row["Account"] for row in cluster.sacct(*jobs)] == ["vision", "nlp", "operations", "operations"]


def test_jobs_of_two_teams_share_a_node(cluster: Cluster) -> None:
    one = cluster.submit("ada", "--nodelist=gpu-dy-p5-1", "--gpus=4", seconds=60)
    other = cluster.submit("alan", "--nodelist=gpu-dy-p5-1", "--gpus=4", seconds=60)
    for job in (one, other):
        cluster.lab.wait_for_job(job, states=("RUNNING",))
    rows = cluster.sacct(one, other, fields="Account,State,NodeList,AllocTRES")
    assert [(row["Account"], row["State"], row["NodeList"]) for row in rows] == [
        ("nlp", "RUNNING", "gpu-dy-p5-1"),
        ("speech", "RUNNING", "gpu-dy-p5-1"),
    ]
    # A GPU brings 192 * 7/8 / 8 = 21 CPUs, and each CPU its share of the memory; four GPUs count four.
    for row in rows:
        amounts = dict(part.split("=") for part in row["AllocTRES"].split(","))
        assert (amounts["cpu"], amounts["gres/gpu"], amounts["billing"]) == ("84", "4", "4")
        mib = float(amounts["mem"][:-1]) * {"M": 1, "G": 1024}[amounts["mem"][-1]]
        assert mib == pytest.approx(84 * 10376, rel=0.001)  # DefMemPerCPU of test_queues.py


def test_limits_of_team_and_user(cluster: Cluster) -> None:
    whole = ["--gpus-per-node=8", "--nodes=1"]
    first = cluster.submit("grace", *whole, seconds=60)
    cluster.lab.wait_for_job(first, states=("RUNNING",))
    second = cluster.submit("grace", "--gpus=1", seconds=1)
    cluster.lab.wait(lambda: cluster.reason(second) == "AssocGrpGRES", "grace is at her 8 GPUs of vision")
    assert "AssocGrpGRES" in cluster.lab.output(["squeue", "-h", "-o", "%r", "-j", second])
    calls = [cluster.submit("ada", "--qos=interactive", "--gpus=1", seconds=60) for _ in range(2)]
    cluster.lab.wait(lambda: cluster.reason(calls[1]) == "QOSMaxJobsPerUserLimit", "one interactive job each")


def preempted(cluster: Cluster, end: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """A job of alan that does `end` when it is asked to save, and ends at once if it has saved; urgent work of ada.

    Returns what the job wrote, and the records of both.
    """
    script = f"""echo start $SLURM_RESTART_COUNT >>runs
    trap 'echo saved >>runs; {end}' USR1
    if grep -q saved runs; then exit 0; fi
    for i in {{1..600}}; do sleep 0.2 & wait; done"""
    cluster.lab.run("rm -f runs", user="alan")
    whole = ["--nodes=2", "--gpus-per-node=8"]
    victim = cluster.submit("alan", *whole, "--signal=B:USR1@60", script=script)
    cluster.lab.wait(lambda: "start" in cluster.lab.run("cat runs", user="alan", check=False).stdout, "the first run")
    urgent = cluster.submit("ada", "--qos=urgent", *whole, seconds=1)
    cluster.lab.wait_for_job(urgent)
    cluster.lab.wait_for_job(victim)
    rows = cluster.sacct(victim, urgent)
    return cluster.lab.output("cat runs", user="alan").split(), [
        (row["Account"], row["QOS"], row["State"]) for row in rows
    ]


def test_urgent_work_preempts_and_a_job_that_saves_resumes(cluster: Cluster) -> None:
    """It ends within the grace period, as train-model.sbatch does."""
    runs, rows = preempted(cluster, "exit 0")
    assert runs == ["start", "saved", "start", "1"], rows
    assert ("nlp", "urgent", "COMPLETED") in rows
    assert [row[2] for row in rows if row[0] == "speech"] in (["PREEMPTED", "COMPLETED"], ["REQUEUED", "COMPLETED"])


def test_a_job_that_outlasts_its_grace_period_is_requeued(cluster: Cluster) -> None:
    """Slurm 24.11.5 runs it once more after it has completed: it forgets to clear the time of the preemption."""
    runs, rows = preempted(cluster, "true")
    assert runs[:4] == ["start", "saved", "start", "1"], rows
    states = [row[2] for row in rows if row[0] == "speech"]
    assert (states[0], states[-1]) == ("PREEMPTED", "COMPLETED"), rows
    assert ("nlp", "urgent", "COMPLETED") in rows


def test_the_team_that_used_less_of_its_share_goes_first(cluster: Cluster) -> None:
    """Slurm ranks the users as the simulator of scripts/benchmarks/shares does, and starts their jobs in that order."""
    whole = ["--nodes=2", "--gpus-per-node=8"]
    ran = [cluster.submit("ada", *whole, seconds=8), cluster.submit("alan", "--gpus=1", seconds=8)]
    ran += [
        cluster.submit("grace", "--gpus=4", seconds=8),
        cluster.submit("grace", "--account=nlp", "--gpus=1", seconds=4),
    ]
    for job in ran:
        cluster.lab.wait_for_job(job)
    ranks: list[str] = []

    def ranked() -> bool:
        rows = {key: row for key, row in cluster.usage().items() if key in OF_TEAMS}
        accounts = {team: simulate.Account(share) for team, share in (("nlp", 2), ("vision", 1), ("speech", 1))}
        for key, row in rows.items():
            team, user = key.split("/")
            accounts[team].usage[user] = float(row["RawUsage"])
        assert all(usage > 0 for account in accounts.values() for usage in account.usage.values()), rows
        expected = simulate.fair_tree(accounts)
        ranks[:] = sorted(rows, key=lambda key: -float(rows[key]["FairShare"]))
        return ranks == ["/".join(key) for key in sorted(expected, key=lambda key: -expected[key])]

    cluster.lab.wait(ranked, "the ranks of the simulator, which Slurm calculates once a minute", seconds=150)
    cluster.lab.wait_for_job(cluster.submit("ubuntu", *whole, seconds=8), states=("RUNNING",))
    jobs = {}
    for key in reversed(ranks):  # the last in rank submits first
        team, user = key.split("/")
        node = ["--nodes=1", "--gpus-per-node=8", "--exclusive", "--nodelist=gpu-dy-p5-1"]
        jobs[key] = cluster.submit(user, f"--account={team}", *node, seconds=2)
    for job in jobs.values():
        cluster.lab.wait_for_job(job)
    rows = {row["JobID"]: row["Start"] for row in cluster.sacct(*jobs.values(), fields="JobID,Start")}
    assert sorted(jobs, key=lambda key: rows[jobs[key]]) == ranks, rows


def test_a_reservation_is_for_its_teams(cluster: Cluster) -> None:
    start = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M")
    mine = {"name": "demo", "queue": "gpu", "nodes": 2, "teams": ["nlp"], "start": start, "hours": 2}
    past = mine | {"name": "past", "start": "2026-01-01T00:00", "hours": 1}
    assert cluster.shares("--apply", reservations=[mine, past])[::2] == (0, "")
    assert cluster.shares("--plan", reservations=[mine, past]) == (0, NOTHING, "")
    assert "ReservationName=past" not in cluster.lab.output(["scontrol", "show", "reservation"])
    outside = cluster.submit("alan", "--gpus=1")
    time.sleep(1)  # sacct names the reservation of a job only if that began in an earlier second
    inside = cluster.submit("ada", "--gpus=1", "--reservation=demo")
    cluster.lab.wait_for_job(inside)
    assert "access denied" in cluster.refused("alan", "--reservation=demo").lower()
    assert cluster.lab.job(outside)["JobState"] == "PENDING"
    assert cluster.sacct(inside, fields="Reservation,State") == [{"Reservation": "demo", "State": "COMPLETED"}]
    longer = mine | {"hours": 3}
    status, plan, _ = cluster.shares("--plan", reservations=[longer])
    assert (status, [one.path for one in found_in(plan)]) == (1, ["EndTime"])
    assert cluster.shares("--apply", reservations=[longer])[::2] == (0, "")
    assert cluster.shares("--apply")[::2] == (0, ""), "without the reservation"
    cluster.lab.wait_for_job(outside)


def test_changes_by_hand_are_differences_and_others_stay(cluster: Cluster) -> None:
    cluster.lab.run(
        "sacctmgr -i modify account where name=nlp set Fairshare=9 GrpTRES=gres/gpu=3,cpu=5; "
        "sacctmgr -i modify qos where name=urgent set Preempt= MaxWall=60 GraceTime=7; "
        "sacctmgr -i modify user where name=grace account=vision set GrpTRES=gres/gpu=-1 QOS=normal; "
        "sacctmgr -i add account physics; sacctmgr -i add user alan account=physics; sacctmgr -i add qos slow; "
        "sacctmgr -i modify user where name=grace set DefaultAccount=nlp; "
        "scontrol create reservation ReservationName=window StartTime=now+10hours Duration=5 Nodes=ALL Users=root",
        user="root",
    )
    try:
        status, plan, _ = cluster.shares("--plan")
        assert status == 1
        found = {(one.subject, one.path): (one.actual, one.expected) for one in found_in(plan)}
        assert found == {
            ("account nlp", "Fairshare"): ("9", "2"),
            ("account nlp", "GrpTRES"): ("cpu=5,gres/gpu=3", ""),
            ("qos urgent", "Preempt"): ("", "normal"),
            ("qos urgent", "MaxWall"): ("3600", "86400"),
            ("qos urgent", "GraceTime"): ("7", "120"),
            ("user grace in vision", "GrpTRES"): ("", "gres/gpu=8"),
            ("user grace in vision", "QOS"): ("normal", "interactive,normal,urgent"),
            ("user grace", "DefaultAccount"): ("nlp", "vision"),
        }
        show = (
            "sacctmgr -nP show assoc account=physics; sacctmgr -nP show qos slow; scontrol -o show reservation window"
        )
        others = cluster.lab.output(show, user="root")
        assert [word in others for word in ("alan", "slow", "ReservationName=window")] == [True] * 3
        assert cluster.shares("--apply")[::2] == (0, "")
        assert cluster.shares("--plan") == (0, NOTHING, "")
        assert cluster.lab.output(show, user="root") == others
    finally:
        cluster.lab.run(
            "scontrol delete ReservationName=window; sacctmgr -i delete user alan account=physics; "
            "sacctmgr -i delete account physics; sacctmgr -i delete qos slow",
            user="root",
        )


def test_what_leaves_is_closed_and_keeps_its_history(cluster: Cluster) -> None:
    job = cluster.submit("alan", "--gpus=8", "--nodes=1", seconds=2)
    cluster.lab.wait_for_job(job)
    before = int(cluster.usage()["speech/alan"]["RawUsage"])
    assert before > 0
    people = copy.deepcopy(cluster.people)
    [alan] = [user for user in people["users"] if user["name"] == "alan"]
    people["users"].remove(alan)
    people["teams"] = [team for team in people["teams"] if team["name"] != "speech"]
    gone = {"users": people["users"], "removed": [{"name": "alan", "uid": 1003}], "teams": people["teams"], "qos": []}
    status, plan, _ = cluster.shares("--plan", **gone)
    closed = {(one.subject, one.path): one.expected for one in found_in(plan)}
    assert status == 1
    assert closed["account speech", "GrpSubmitJobs"] == closed["qos urgent", "GrpSubmitJobs"] == "0"
    assert closed["user alan in speech", "MaxSubmitJobs"] == "0"
    assert closed["qos normal", "GraceTime"] == "0"
    assert cluster.shares("--apply", **gone)[::2] == (0, "")
    assert cluster.shares("--plan", **gone)[0] == 0
    assert "limit" in cluster.refused("alan").lower()
    assert [row["State"] for row in cluster.sacct(job)] == ["COMPLETED"]
    assert cluster.shares("--apply")[::2] == (0, "")
    assert int(cluster.usage()["speech/alan"]["RawUsage"]) >= before - 5, "what alan used still counts"
    cluster.lab.wait_for_job(cluster.submit("alan"))


def test_errors_name_their_cause(cluster: Cluster) -> None:
    status, _, errors = cluster.shares("--plan", users=[{"name": "eve", "teams": ["dance"], "administrator": False}])
    assert (status, errors) == (
        2, "shares: the user eve has the team dance; there are: nlp, operations, speech, vision\n",
    )  # fmt: skip
    big = {"name": "big", "queue": "gpu", "nodes": 5, "teams": ["nlp"], "start": "2035-01-01T00:00", "hours": 1}
    status, _, errors = cluster.shares("--apply", reservations=[big])
    assert status == 2
    assert "ReservationName=big" in errors
    assert "Requested" in errors
