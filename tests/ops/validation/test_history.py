"""Reports that the head node keeps, and figures that are lower than before."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ops.report import html, json_text
from ops.report.commands import validation_report
from ops.validation import history
from ops.validation.report import Earlier, Line, Outcome, Report, figure_key
from tests.ops.report.sample import sample
from tests.ops.report.test_charts import charts_of
from tests.ops.validation.fakes import FakeNode, request_handler
from trainyard.head_node_documents import REQUEST

LINE = Line("nccl", "gpu/p5, 2 nodes", "all_reduce", "380 GB/s", "", Outcome.PASSED, figures={"GB/s at 4 GiB": 380.0})
KEY = figure_key(LINE, "GB/s at 4 GiB")


def run(rate: float, *, passed: bool = True, day: int = 1, key: str = KEY) -> Earlier:
    return Earlier(str(day), f"2026-11-{day:02}T00:00:00Z", passed, "PASSED", {key: rate})


@pytest.mark.parametrize(
    ("runs", "before"),
    [
        ([run(399)], None),
        ([run(401)], "401"),
        ([run(390, day=2), run(500)], None),
        ([run(200, passed=False, day=2), run(500)], "500"),
        ([run(200, key="other", day=2), run(500)], "500"),
        ([run(500, passed=False)], None),
        ([], None),
    ],
    ids=["5 %", "more", "the last one", "that passed", "and measured it", "never passed", "first run"],
)
def test_slower_than_the_last_good_run(runs: list[Earlier], before: str | None) -> None:
    found = [(line.outcome, line.wanted.partition(" ")[0]) for line in history.slower([LINE], runs)]
    assert found == ([(Outcome.WARNING, before)] if before else [])


def test_warning_of_simulated_figures_says_so() -> None:
    [line] = history.slower([replace(LINE, simulated=True)], [run(500)])
    assert line.found == "simulated: 380 GB/s at 4 GiB, 24 % lower" and line.simulated
    assert Report("e", "c", "i", (LINE, line)).passed


class KeepingNode(FakeNode):
    """A head node that keeps reports in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.settings = {"folders": {"results": str(folder)}}

    def ask(self, *words: str) -> dict[str, object]:
        assert re.search(REQUEST, " ".join(words))
        self.asked.append(words)
        return dict(request_handler.REQUESTS[words[0]](self.settings, words[1:]))


def test_report_is_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_WORDS", 4)
    node = KeepingNode(tmp_path)
    report = replace(sample(tmp_path), time="2026-11-22T10:00:00Z")
    text = json_text(validation_report(report))
    history.keep(node, "20261122-100000", text)
    assert len(node.asked) > 2
    assert [path.name for path in (tmp_path / "validation" / "20261122-100000").iterdir()] == ["report.json"]
    assert (tmp_path / "validation" / "20261122-100000" / "report.json").read_text() == text
    (tmp_path / "validation" / "20261121-1").mkdir()
    (tmp_path / "validation" / "20261121-1" / "report.json").write_text("[]")
    [before] = history.earlier(node)
    assert before == Earlier("20261122-100000", report.time, False, report.headline, report.figures)
    assert len(before.figures) == 12
    page = html(validation_report(replace(report, time="2026-11-23T10:00:00Z", earlier=(before,))))
    *_, chart = charts_of(page)
    assert chart["kind"] == "times" and chart["points"][0][1:] == [100.0] * 8
    assert "1 earlier runs" in page


def test_history_fits_systems_manager(tmp_path: Path) -> None:
    node = KeepingNode(tmp_path)
    figures = {f"nccl gpu/p5, 80 nodes, {number} {'x' * 60}: GB/s": 123.4 for number in range(20)}
    for day in range(10, 40):
        report = Report("e", "c", "i", (replace(LINE, asked="x", figures=figures),), time=f"2026-11-{day}")
        history.keep(node, f"20261101-{day}", json_text(validation_report(report)))
    runs = history.earlier(node)
    assert len(request_handler.one_line(node.ask("history"))) <= request_handler.MOST_CHARACTERS
    assert 5 < len(runs) < 20 and runs[0].run == "20261101-39"


@pytest.mark.parametrize(
    "words", [("../x", "1", "1", "x"), ("run", "1", "1", "no-report"), ("run", "0", "1", "x"), ("run", "1", "1")]
)
def test_what_is_not_a_report_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit):
        KeepingNode(tmp_path).ask("keep", *words) if words[0] == "run" else request_handler.keep(
            {"folders": {"results": str(tmp_path)}}, words
        )
    assert "validation: " in capsys.readouterr().err
    assert not list(tmp_path.rglob("report.json"))
