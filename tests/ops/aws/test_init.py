"""A first environment file: from options and a reservation, valid, and never over another one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.aws import init
from ops.preflight.aws import Aws
from ops.problem import Problem
from settings import load
from tests.ops.preflight.account import ACCOUNT, RESERVATION, Answer, refusal, reservation, unstarted_block

GIVEN = {"region": "us-east-1", "zone": "use1-az4", "instance_type": "p5.48xlarge", "nodes": "4"}


class Fake(Aws):
    def __init__(self, found: list[Answer]) -> None:
        self.found = found

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401, ARG002 - boto3's
        if service == "sts":
            return {"Account": ACCOUNT}
        if operation == "describe_availability_zones":
            return {"AvailabilityZones": [{"ZoneId": "use1-az6"}]}
        if not self.found:
            raise refusal("InvalidCapacityReservationId.NotFound", "no", operation)
        return {"CapacityReservations": self.found}


def account(*found: Answer) -> Callable[[str], Aws]:
    return lambda _: Fake(list(found))


@pytest.mark.parametrize(
    ("record", "capacity"),
    [
        (reservation(), "odcr"),
        (reservation(ReservationType="capacity-block"), "capacity-block"),
        (unstarted_block(), "capacity-block"),
        (unstarted_block("payment-pending"), "capacity-block"),
    ],
    ids=["odcr", "block", "scheduled block", "unpaid block"],
)
def test_a_reservation_gives_zone_type_and_number(record: Answer, capacity: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    given = {"region": "us-east-1", "reservation": RESERVATION}
    init.write(file, given, account(record))
    found = load(file)
    assert (found.name, found.account, found.network.zone) == ("mine", ACCOUNT, "use1-az4")
    queue = found.cluster.queues[0]
    assert (queue.capacity.type, queue.capacity.reservation) == (capacity, RESERVATION)
    assert (queue.compute[0].instance_types, queue.compute[0].max) == (("p5.48xlarge",), 2)
    assert queue.compute[0].min == (2 if capacity == "capacity-block" else 0)
    assert queue.compute[0].efa


def test_without_a_reservation(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    init.write(file, {**GIVEN, "instance_type": "g5.2xlarge"}, account())
    assert not load(file).cluster.queues[0].compute[0].efa
    assert sorted(path.name for path in tmp_path.iterdir()) == ["environment.schema.json", "mine.yaml"]
    named = file.read_text("utf-8").splitlines()[0].partition("$schema=")[2]
    assert json.loads((tmp_path / named).read_text("utf-8"))["title"] == "Trainyard environment"


def test_a_region_without_the_usual_file_systems(tmp_path: Path) -> None:
    """Jakarta has neither PERSISTENT_2 nor SINGLE_AZ_HA_2."""
    region = {"region": "ap-southeast-3", "zone": "apse3-az1", "instance_type": "p5e.48xlarge"}
    init.write(tmp_path / "mine.yaml", GIVEN | region, account())
    storage = load(tmp_path / "mine.yaml").storage
    assert storage.openzfs is not None
    assert (storage.lustre[0].deployment, storage.openzfs.deployment) == ("PERSISTENT_1", "SINGLE_AZ_HA_1")


def test_a_zone_without_an_id_is_looked_up(tmp_path: Path) -> None:
    record = reservation(AvailabilityZone="us-east-1f")
    del record["AvailabilityZoneId"]
    init.write(tmp_path / "mine.yaml", {"region": "us-east-1", "reservation": RESERVATION}, account(record))
    assert load(tmp_path / "mine.yaml").network.zone == "use1-az6"


@pytest.mark.parametrize(
    ("given", "found", "words"),
    [
        ({**GIVEN, "zone": ""}, [], "--zone is missing"),
        ({**GIVEN, "reservation": RESERVATION}, [], "no capacity reservation"),
        ({**GIVEN, "reservation": RESERVATION}, [reservation(State="expired")], "is expired"),
        ({**GIVEN, "reservation": RESERVATION}, [reservation()], "has nodes 2, not 4"),
        ({**GIVEN, "nodes": "many"}, [], r"mine\.yaml:\d+: cluster"),
        ({**GIVEN, "region": "nowhere"}, [], r"mine\.yaml:\d+: region"),
    ],
    ids=["missing", "unknown", "expired", "other number", "no number", "no region"],
)
def test_refused_before_anything_is_written(
    given: dict[str, str], found: list[Answer], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Problem, match=words):
        init.write(tmp_path / "mine.yaml", given, account(*found))
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    with pytest.raises(Problem, match="not overwritten"):
        init.write(tmp_path / "mine.yaml", GIVEN, account())
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_no_answer_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(Problem, match="No answer"):
        init.write(tmp_path / "mine.yaml", {}, account())
    assert list(tmp_path.iterdir()) == []


def test_questions_are_asked_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {init.QUESTIONS[key]: value for key, value in GIVEN.items()}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: answers.get(question.removesuffix(": "), ""))
    init.write(tmp_path / "mine.yaml", {}, account())
    assert load(tmp_path / "mine.yaml").cluster.queues[0].compute[0].max == 4
