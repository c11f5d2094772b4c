"""Prices, the report in each format, and the command, without a cluster."""

from __future__ import annotations

import base64
import csv
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli import main
from cli.parser import parser
from ops.problem import Problem
from ops.report import html, json_text, markdown
from ops.usage.records import Usage, priced, usage
from ops.usage.report import COLUMNS, report, table
from ops.validation import head_node
from settings import Environment, load
from settings.model.cluster import Capacity
from settings.model.cost import Cost
from settings.prices import node_prices
from tests.ops.head_node_stub import HeadNodeStub
from tests.ops.report.browser import Shown, show
from trainyard.pipeline.actions import USAGE

ROOT = Path(__file__).resolve().parents[3]
SINCE = datetime(2026, 10, 1, tzinfo=UTC).timestamp()
FOUND: dict[str, Any] = {
    "schema": 1, "since": SINCE, "until": SINCE + 2 * 86400, "gpus_counted": True, "runs": 3,
    "resources": {
        "gpu/p5": {"nodes": 2, "gpus": 8, "up": 96.0, "used": 50.0, "down": 6.0, "idle": 40.0},
        "cpu/c7i": {"nodes": 2, "gpus": 0, "up": 10.0, "used": 10.0, "down": 0.0, "idle": 0.0},
    },
    "rows": [
        ["vision", "ada", "llama", "completed", "gpu/p5", 1, 320.0, 40.0],
        ["vision", "ada", "llama", "failed", "gpu/p5", 1, 80.0, 10.0],
        ["=1+1", "grace", "(none)", "completed", "cpu/c7i", 1, 0.0, 10.0],
    ],
    "days": [["2026-10-01", "vision", 200.0, 25.0], ["2026-10-02", "vision", 200.0, 25.0]],
    "jobs": [
        {
            "job": "7", "name": "@SUM(A1)<b>", "user": "ada", "team": "vision", "model": "llama", "state": "FAILED",
            "start": SINCE, "end": SINCE + 3600, "gpu_hours": 80.0, "node_hours": {"gpu/p5": 10.0},
        }
    ],
}  # fmt: skip


def environment(prices: dict[str, float] | None = None, **capacity: str) -> Environment:
    """The local environment with prices, and a capacity of its first queue."""
    local = load(ROOT / "environments" / "local.yaml")
    gpu, cpu = local.cluster.queues
    gpu = gpu.model_copy(update={"capacity": Capacity.model_validate(capacity)})
    slurm = local.cluster.slurm.model_copy(update={"accounting": True})
    cluster = local.cluster.model_copy(update={"queues": (gpu, cpu), "slurm": slurm})
    return local.model_copy(update={"cluster": cluster, "cost": Cost(prices=prices or {})})


ROUND = {"p5.48xlarge": 80.0, "c7i.xlarge": 0.2}


@pytest.fixture
def found() -> Usage:
    return priced(environment(ROUND), FOUND)


def test_prices_are_the_users_then_the_tables_and_never_invented() -> None:
    listed = node_prices(environment())["cpu/c7i"]
    assert listed is not None and node_prices(environment(ROUND))["cpu/c7i"] == 0.2 != listed
    assert node_prices(environment(type="spot"))["gpu/p5"] is None, "the table has no spot prices"
    assert node_prices(environment(ROUND, type="spot"))["gpu/p5"] == 80.0


def test_headline_and_sections(found: Usage) -> None:
    """50 + 46 node hours of p5, 10 of c7i: 96 x 80 + 10 x 0.2; failed, idle and drained are 56 x 80."""
    made = report(found, "team")
    assert made.headline == "400.0 GPU hours in 3 runs of jobs; nodes cost $7,682.00, 58% of it idle or wasted."
    assert made.sections[0].rows[0].cells[:6] == ("vision", "2", "400.0", "50.0", "$4,000.00", "$800.00")
    wasted = [row.cells for row in made.sections[1].rows]
    assert wasted == [
        ("failed jobs", "all", "80.0", "10.0", "$800.00"),
        ("idle", "gpu/p5", "320.0", "40.0", "$3,200.00"),
        ("drained or down", "gpu/p5", "48.0", "6.0", "$480.00"),
    ]
    assert made.sections[2].rows[0].cells[0] == "7"


def test_unknown_price_leaves_hours_without_dollars() -> None:
    made = report(priced(environment(type="spot"), FOUND), "team")
    assert "nodes cost at least $" in made.headline
    assert made.sections[0].rows[0].cells[2:5] == ("400.0", "50.0", "price unknown")
    assert any("Without a price, so only hours are shown: gpu/p5. Give cost.prices." in note for note in made.notes)
    assert json.loads(json_text(made))["usd"] is None
    row = next(csv.DictReader(io.StringIO(table(priced(environment(type="spot"), FOUND), "team"))))
    assert (row["gpu_hours"], row["usd"]) == ("400.0", "")


def test_gpus_that_slurm_does_not_count_are_noted() -> None:
    made = report(priced(environment(ROUND), {**FOUND, "gpus_counted": False}), "user")
    assert any("AccountingStorageTRES has no gres/gpu" in note for note in made.notes)


def test_csv_has_no_formula_and_sums_to_the_bill(found: Usage) -> None:
    rows = list(csv.DictReader(io.StringIO(table(found, "team"))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["team"] for row in rows if row["kind"] == "used"] == ["vision", "'=1+1"]
    assert sum(float(row["usd"]) for row in rows) == pytest.approx(7682)
    (job,) = (row for row in csv.DictReader(io.StringIO(table(found, "job"))) if row["kind"] == "used")
    assert job["name"] == "'@SUM(A1)<b>" and job["state"] == "FAILED"


@pytest.mark.parametrize("by", ["team", "user", "model", "job"])
def test_page_loads_nothing_and_escapes_names(found: Usage, by: str) -> None:
    page = html(report(found, by))
    assert "<b>" not in page and "@SUM(A1)&lt;b&gt;" in page
    assert page.count("<figure>") == 3
    assert "src=" not in page and 'rel="stylesheet"' not in page
    assert "@SUM(A1)&lt;b>" in markdown(report(found, by))


@pytest.mark.lab
def test_browser_draws_every_chart(found: Usage, tmp_path: Path) -> None:
    page = html(report(found, "team"))
    assert show(page, tmp_path, 1200, dark=False) == Shown(page.count("<figure>"), True, 1200, False)


# --- the command


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeadNodeStub]:
    """The account of an environment with accounting, which the command reads."""
    stub = HeadNodeStub("usage")
    stub.deployed("running")
    monkeypatch.setattr(head_node, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("cli.usage.read", lambda _: (Path("x.yaml"), environment(ROUND)))
    monkeypatch.setattr("cli.verdicts.session_of", lambda _: stub)
    monkeypatch.setattr("ops.preflight.aws.require_account", lambda *_: None)
    yield stub
    stub.ended()


WINDOW = ("--since", "2026-10-01", "--until", "2026-10-03")
ASKED = f"{int(SINCE)} {int(SINCE) + 2 * 86400}"


def pages(count: int) -> list[dict[str, Any]]:
    """The pages of the report, as the head node answers them."""
    packed = base64.b64encode(zlib.compress(json.dumps(FOUND).encode())).decode()
    size = -(-len(packed) // count)
    parts = [packed[start : start + size] for start in range(0, len(packed), size)]
    first = {"digest": "f" * 32, "pages": count, "data": parts[0]}
    return [first, *({"data": part} for part in parts[1:])]


def test_command_asks_for_every_page(aws: HeadNodeStub, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = pages(3)
    aws.answers(f"report {ASKED} 20", out=first)
    aws.answers(f"page {'f' * 32} 1", out=second)
    aws.answers(f"page {'f' * 32} 2", out=third)
    assert main(["cost", "local", "--on", "aws", *WINDOW]) == 0
    assert "400.0 GPU hours in 3 runs" in capsys.readouterr().out


def test_csv_to_a_file(aws: HeadNodeStub, tmp_path: Path) -> None:
    aws.answers(f"report {ASKED} 20000", out=pages(1)[0])
    file = tmp_path / "jobs.csv"
    words = ["--by", "job", "--format", "csv", "--output", str(file)]
    assert main(["cost", "local", "--on", "aws", *WINDOW, *words]) == 0
    assert file.read_bytes().startswith(b"kind,team,user") and b"\r\n" in file.read_bytes()


def test_refusal_of_the_head_node(aws: HeadNodeStub, capsys: pytest.CaptureFixture[str]) -> None:
    aws.answers(f"report {ASKED} 20", status="Failed", err="usage: sacct: Unable to connect to slurmdbd")
    assert main(["cost", "local", "--on", "aws", *WINDOW]) == 4
    said = capsys.readouterr().err
    assert "cannot report the usage: sacct: Unable to connect to slurmdbd" in said and "Traceback" not in said


def test_environment_without_accounting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ops.preflight.aws.require_account", lambda *_: None)
    assert main(["cost", "local", "--on", "aws"]) == 4
    assert "cluster.slurm.accounting is false" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "soon"], "allowed: 30m, 2h or 7d before the end, or a date"),
        (["--by", "week"], "invalid choice"),
        (["--jobs", "0"], "allowed: 1 to 20000"),
    ],
)
def test_wrong_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cost", "local", *words])
    assert said in capsys.readouterr().err


def test_window_that_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "local", "--on", "aws", "--since", "2026-10-03", "--until", "2026-10-01"]) == 4
    assert "--since is not before --until" in capsys.readouterr().err


def test_moments_are_utc() -> None:
    def since(text: str, until: int = 1_000_000) -> int:
        found: int = parser().parse_args(["cost", "local", "--since", text]).since(until)
        return found

    assert since("7d") == 1_000_000 - 7 * 86400
    assert since("2026-10-01") == since("2026-10-01T00:00") == since("2026-10-01T02:00+02:00") == SINCE


# --- reservations

CR = "cr-0123456789abcdef0"


def reserved(aws: HeadNodeStub, wanted: Environment, **answer: Any) -> Usage:  # noqa: ANN401
    if answer:
        listed = {"InstanceType": "p5.48xlarge", "TotalInstanceCount": 3, "CreateDate": datetime(2026, 9, 1), **answer}
        response = {"CapacityReservations": [listed]}
        aws.stubs["ec2"].add_response("describe_capacity_reservations", response, {"CapacityReservationIds": [CR]})
    else:
        aws.stubs["ec2"].add_client_error("describe_capacity_reservations", "UnauthorizedOperation")
    aws.answers(f"report {ASKED} 0", out=pages(1)[0])
    found = usage(wanted, aws, int(SINCE), int(SINCE) + 2 * 86400, 0)  # type: ignore[arg-type]
    assert set(aws.sent) == set(USAGE), "the permissions that docs/permissions.md lists"
    return found


def test_reserved_instances_that_did_not_run_cost_too(aws: HeadNodeStub) -> None:
    """Three instances for 48 h, of which two ran for 48 h each."""
    wanted = environment(ROUND, type="odcr", reservation=CR)
    [part] = [one for one in reserved(aws, wanted, State="active").unused if one.kind.startswith("reserved")]
    assert (part.resource, part.node_hours, part.gpu_hours, part.usd) == (f"gpu {CR}", 48.0, 384.0, 48 * 80.0)


def test_a_reservation_of_two_queues_is_counted_once(aws: HeadNodeStub) -> None:
    wanted = environment(ROUND, type="odcr", reservation=CR)
    gpu, cpu = wanted.cluster.queues
    queues = gpu, cpu.model_copy(update={"capacity": gpu.capacity})
    wanted = wanted.model_copy(update={"cluster": wanted.cluster.model_copy(update={"queues": queues})})
    found = reserved(aws, wanted, State="active", TotalInstanceCount=9)
    [part] = [one for one in found.unused if one.kind.startswith("reserved")]
    up = sum(row["up"] for row in FOUND["resources"].values())
    assert (part.resource, part.node_hours) == (f"gpu, cpu {CR}", 9 * 48 - up)


def test_reservation_that_began_later_counts_from_then(aws: HeadNodeStub) -> None:
    wanted = environment(ROUND, type="odcr", reservation=CR)
    found = reserved(aws, wanted, CreateDate=datetime(2026, 10, 2, tzinfo=UTC), TotalInstanceCount=5)
    [part] = [one for one in found.unused if one.kind.startswith("reserved")]
    assert part.node_hours == 5 * 24 - 96


def test_reservation_that_cannot_be_read_is_unknown(aws: HeadNodeStub) -> None:
    found = reserved(aws, environment(ROUND, type="odcr", reservation=CR))
    assert not [one for one in found.unused if one.kind.startswith("reserved")]
    assert any(f"Unused hours of {CR}, queue gpu, are unknown" in note for note in found.notes)


@pytest.mark.parametrize("end", [{}, {"EndDate": datetime(2026, 12, 1, tzinfo=UTC)}], ids=["no end", "a later end"])
def test_cancelled_reservation_is_a_note_and_no_hours(aws: HeadNodeStub, end: dict[str, datetime]) -> None:
    found = reserved(aws, environment(ROUND, type="odcr", reservation=CR), State="cancelled", **end)
    assert not [one for one in found.unused if one.kind.startswith("reserved")]
    assert any(f"{CR}, queue gpu, are not counted: it is cancelled" in note for note in found.notes)


def test_capacity_block_has_no_price_but_the_users(aws: HeadNodeStub) -> None:
    found = reserved(aws, environment(type="capacity-block", reservation=CR), State="active")
    [part] = [one for one in found.unused if one.kind.startswith("reserved")]
    assert part.usd is None and any("give cost.prices" in note for note in found.notes)


def test_report_that_cannot_be_read(aws: HeadNodeStub) -> None:
    aws.answers(f"report {ASKED} 0", out={"digest": "f" * 32, "pages": 1, "data": "AAAA"})
    with pytest.raises(Problem, match="cannot be read"):
        usage(environment(ROUND), aws, int(SINCE), int(SINCE) + 2 * 86400, 0)  # type: ignore[arg-type]


def test_figures_of_the_emulated_aws_are_simulated(found: Usage) -> None:
    assert "simulated" not in report(found, "team").title
    assert "simulated: on AWS the nodes would cost this" in report(replace(found, simulated=True), "team").title
