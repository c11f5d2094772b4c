"""What the environment file becomes: the document for the head node, slurm.conf, and commands. No Slurm."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.benchmarks.shares import simulate
from settings import Environment, load
from settings.model.teams import MAX_PRIORITY
from settings.shares import shares
from tests.cluster_config.references import references
from trainyard.cluster_config import render
from trainyard.cluster_config.nodes import custom_slurm_settings
from trainyard.cluster_config.shares import PARAMETERS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "cluster_assets" / "people"))
import apply_shares  # noqa: E402
import slurm_state  # noqa: E402

JAKARTA = load(ROOT / "environments/jakarta-80xp5e.yaml")
NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
PEOPLE: dict[str, Any] = {"users": [], "removed": [], "teams": [], "qos": [], "reservations": []}
RESERVATION = {"name": "demo", "queue": "gpu", "nodes": 2, "teams": ["nlp"], "start": "2026-12-01T09:00", "hours": 2}


def shared(teams: list[dict[str, Any]], team: str = "") -> Environment:
    """The environment of 80 nodes with teams; its first two models belong to `team`."""
    models = tuple(
        model.model_copy(update={"team": team or None}) if index < 2 else model
        for index, model in enumerate(JAKARTA.models)
    )
    extended = JAKARTA.model_dump(mode="json") | {"teams": teams}
    return Environment.model_validate(extended).model_copy(update={"models": models})


@pytest.mark.parametrize(("given", "gpus"), [({}, 176), ({"max_gpus": 640}, 640)])
def test_a_teams_limit_is_that_of_its_models_unless_it_has_one(given: dict[str, int], gpus: int) -> None:
    found = shares(shared([{"name": "nlp", **given}, {"name": "vision"}], "nlp"))
    assert [team["max_gpus"] for team in found["teams"]] == [gpus, None]  # type: ignore[attr-defined]
    assert found["models"] == [{"name": "model1", "team": "nlp"}, {"name": "model2", "team": "nlp"}]


def test_the_documented_example_of_seven_models_is_valid(tmp_path: Path) -> None:
    data = yaml.safe_load((ROOT / "environments/jakarta-80xp5e.yaml").read_text("utf-8"))
    text = (ROOT / "docs/shares.md").read_text("utf-8").partition("## Seven models on 80 nodes")[2]
    data |= yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    data["cluster"]["slurm"]["accounting"] = True
    for number, model in enumerate(data["models"], start=1):
        model["team"] = f"team{number}"
    (tmp_path / "shared.yaml").write_text(yaml.safe_dump(data), "utf-8")
    environment = load(tmp_path / "shared.yaml")
    assert {team.name: team.share for team in environment.teams} == {
        model.team: model.nodes for model in environment.models
    }
    assert [team.max_gpus for team in environment.teams] == [2 * 8 * model.nodes for model in environment.models]


@pytest.mark.parametrize(
    ("free", "sizes", "expected"),
    [(2, (1, 4, 1), [0, 2]), (4, (1, 3, 1), [0, 1]), (1, (2, 3, 1), [2]), (0, (1, 2, 1), [])],
    ids=["backfill", "in order", "only what ends before", "full"],
)
def test_backfill_keeps_the_start_of_jobs_before(free: int, sizes: tuple[int, ...], expected: list[int]) -> None:
    """Two nodes run for 100 s more; the last job needs its node for 50 s, the others for 1000 s."""
    running = [simulate.Job("a", "u", 2, 100, 100, 0, 0.0)]
    pending = [simulate.Job("a", "u", size, 50, 1000, 0) for size in sizes]
    pending[-1].limit = 50
    found = simulate.starting(pending, running, free, 0.0)
    assert [pending.index(job) for job in found] == expected


def test_fair_tree_ranks_teams_before_users() -> None:
    """The example of Slurm's documentation in small: a user of a team in credit precedes all of a team in debt."""
    accounts = {"a": simulate.Account(1, {"x": 9.0, "y": 1.0}), "b": simulate.Account(3, {"z": 20.0})}
    assert simulate.fair_tree(accounts) == {("b", "z"): 1.0, ("a", "y"): 2 / 3, ("a", "x"): 1 / 3}


def test_the_recorded_week_gives_each_team_its_share() -> None:
    weeks = json.loads((ROOT / "scripts/benchmarks/shares/results.json").read_text("utf-8"))
    assert weeks["parameters"] == PARAMETERS, "record again: scripts/benchmarks/shares/simulate.py"
    assert all(simulate.worst(week) <= 5 for week in weeks["weeks"]["shares, jobs up to 4 h"])
    assert max(simulate.worst(week) for week in weeks["weeks"]["first come, first served, jobs up to 8 h"]) > 100


def test_slurm_conf_of_a_shared_cluster_only() -> None:
    def parameters(environment: Environment) -> dict[str, str]:
        settings: Any = render(environment, references(environment))["Scheduling"]
        return {name: value for one in settings["SlurmSettings"]["CustomSlurmSettings"] for name, value in one.items()}

    assert not PARAMETERS.keys() & parameters(JAKARTA).keys()
    assert parameters(JAKARTA).items() <= parameters(shared([{"name": "nlp"}])).items()
    assert PARAMETERS.items() <= parameters(shared([{"name": "nlp"}])).items()


def test_a_step_of_priority_outweighs_fair_share_and_age() -> None:
    step = int(PARAMETERS["PriorityWeightQOS"]) / MAX_PRIORITY
    assert step > int(PARAMETERS["PriorityWeightFairshare"]) + int(PARAMETERS["PriorityWeightAge"])
    assert int(PARAMETERS["PriorityWeightQOS"]) < 2**32


def test_gpus_are_what_counts_and_cpus_of_gpu_nodes_count_as_their_gpus() -> None:
    gpu, cpu = shared([{"name": "nlp"}]).cluster.queues
    environment = shared([{"name": "nlp"}])
    assert custom_slurm_settings(environment, gpu)["TRESBillingWeights"] == "CPU=0.0417,GRES/gpu=1.0"
    assert custom_slurm_settings(environment, cpu)["TRESBillingWeights"] == "CPU=0.01"
    assert "TRESBillingWeights" not in custom_slurm_settings(JAKARTA, gpu)


def test_gpus_bring_cpus_without_memory_scheduling_too() -> None:
    environment = shared([{"name": "nlp"}])
    cluster = environment.cluster
    plain = cluster.slurm.model_copy(update={"memory_scheduling": False})
    environment = environment.model_copy(update={"cluster": cluster.model_copy(update={"slurm": plain})})
    found = custom_slurm_settings(environment, cluster.queues[0])
    assert (found["DefCpuPerGPU"], "DefMemPerCPU" in found) == ("21", False)


@pytest.mark.parametrize(
    ("start", "fields"),
    [
        ("2026-12-01T09:00", {"StartTime": "2026-12-01T09:00:00", "EndTime": "2026-12-01T11:00:00"}),
        ("2026-12-01T07:00", {"EndTime": "2026-12-01T09:00:00"}),
        ("2026-12-01T06:00", None),
    ],
    ids=["later", "now", "past"],
)
def test_reservations(start: str, fields: dict[str, str] | None) -> None:
    people = PEOPLE | {"reservations": [RESERVATION | {"start": start}]}
    found = apply_shares.wanted(people, "demo", "ubuntu", NOW).get(("reservation", "demo"))
    rest = {"PartitionName": "gpu", "NodeCnt": "2", "Accounts": "nlp"}
    assert found == (fields and {**fields, **rest})


def test_the_clusters_user_and_administrators_have_the_account_of_operations() -> None:
    ada = {"name": "ada", "teams": ["nlp"], "administrator": True}
    team = {"name": "nlp", "share": 1, "max_gpus": None, "max_gpus_per_user": 8, "qos": []}
    state = apply_shares.wanted(PEOPLE | {"users": [ada], "teams": [team]}, "demo", "ubuntu", NOW)
    users = [key for key in state if key[0] == "user"]
    assert users == [("user", "ubuntu", "operations"), ("user", "ada", "nlp"), ("user", "ada", "operations")]
    assert state["default", "ubuntu"] == {"DefaultAccount": "operations"}
    assert state["user", "ada", "nlp"]["GrpTRES"] == "gres/gpu=8"


def test_the_qos_of_another_cluster_in_the_same_database_is_not_changed() -> None:
    people = PEOPLE | {"qos": [_qos("urgent")]}
    want = apply_shares.wanted(people, "demo", "ubuntu", NOW)
    have: slurm_state.State = {("qos", "urgent"): {**want["qos", "urgent"], "Description": "trainyard other"}}
    with pytest.raises(slurm_state.SlurmError, match="belongs to the cluster of 'trainyard other'"):
        apply_shares.differences(want, have, people, "demo")


def test_the_qos_normal_that_leaves_the_file_is_as_slurm_made_it() -> None:
    """It cannot be closed, and would keep its limits and its place in preemption for ever."""
    limited = PEOPLE | {"qos": [_qos("normal") | {"max_hours": 4, "preempts": ["spare", "spare"]}]}
    have: slurm_state.State = {("qos", "normal"): apply_shares.wanted(limited, "demo", "ubuntu", NOW)["qos", "normal"]}
    assert have["qos", "normal"]["Preempt"] == "spare"
    found = apply_shares.differences({}, have, PEOPLE, "demo")
    assert {one.field: one.expected for one in found} == {
        "Description": "normal qos default", "Priority": "0", "GraceTime": "0", "Preempt": "", "MaxWall": "",
    }  # fmt: skip
    assert apply_shares.differences({}, have, PEOPLE, "other") == []


def _qos(name: str) -> dict[str, Any]:
    limits = ("max_gpus_per_team", "max_gpus_per_user", "max_jobs_per_user", "max_hours")
    return {"name": name, "priority": 1, "preempts": [], "grace_seconds": 120, **dict.fromkeys(limits)}


@pytest.mark.parametrize(("text", "seconds"), [("00:02:00", "120"), ("1-00:00:00", "86400"), ("", "")])
def test_times_of_sacctmgr(text: str, seconds: str) -> None:
    assert slurm_state.plain("GraceTime", text) == seconds


def test_a_limit_that_was_set_by_hand_is_taken_away() -> None:
    found = [apply_shares.Difference(("account", "nlp"), "GrpTRES", "gres/gpu=8", "cpu=5")]
    [command] = apply_shares.commands(found, {}, "demo", (24, 11))
    assert command[-1] == "GrpTRES=cpu=-1,gres/gpu=8"
    assert command[:-1] == ["sacctmgr", "-i", "modify", "account", "where", "name=nlp", "cluster=demo", "set"]
