"""What the environment file becomes: the document for the head node, slurm.conf, and commands. No Slurm."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

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


def test_slurm_conf_of_a_shared_cluster_only() -> None:
    def parameters(environment: Environment) -> dict[str, str]:
        settings: Any = render(environment, references(environment))["Scheduling"]
        return {
            name: value for item in settings["SlurmSettings"]["CustomSlurmSettings"] for name, value in item.items()
        }

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
