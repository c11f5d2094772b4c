"""`trainyard status --web`: the page from recorded answers of a real Prometheus, its server, and its errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from cli import main, overview
from ops.overview.page import _text
from ops.overview.page import overview as overview_report
from ops.overview.prometheus import Prometheus
from ops.overview.server import page, server
from ops.problem import Problem
from ops.report import Report, Tone, html
from tests.ops.overview.fakes import NOW, RECORDED, recorded
from tests.ops.report.browser import Shown, show
from tests.ops.report.test_charts import Loads, charts_of
from trainyard.dashboards.cluster import OVERVIEW
from trainyard.dashboards.model import Unit


@pytest.fixture
def address() -> Iterator[str]:
    with recorded() as found:
        yield found


@pytest.fixture
def report(address: str) -> Report:
    return overview_report("local", Prometheus(address), NOW)


def changed(key: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The recorded answers with one replaced."""
    assert key in RECORDED["answers"]
    return {**RECORDED["answers"], key: answer}


def test_page_shows_what_prometheus_has(report: Report) -> None:
    """Figures, alerts of the product's own rules, and rows that join several queries."""
    assert report.title.startswith("local: overview of the last hour, 20") and report.title.endswith("UTC (simulated)")
    assert report.tone is Tone.BAD and report.headline == "2 urgent alerts, 1 warning."
    figures = {figure.name: (figure.value, figure.tone) for figure in report.figures}
    assert list(figures) == [panel.title for panel in OVERVIEW.panels if panel.kind == "figure"]
    assert figures["GPUs allocated"] == ("40", Tone.NONE)
    assert figures["Nodes out of service"] == ("1", Tone.WARNING)
    assert figures["Urgent alerts"] == ("2", Tone.BAD)
    assert figures["Tokens/s"][0].endswith(" k") and figures["Fullest file system"][1] is Tone.WARNING
    assert report.alarm
    rows = {row.cells[1]: row for row in report.alarm.rows}
    assert set(rows) == {"GpuThrottled", "FileSystemFull", "NodeDrained"}
    assert rows["GpuThrottled"].cells[0] == "urgent" and "gpu-st-p5-3" in rows["GpuThrottled"].cells[2]
    assert rows["NodeDrained"].tone is Tone.WARNING and rows["NodeDrained"].cells[3].startswith("sinfo -R")
    jobs, nodes = report.sections
    assert jobs.columns == ("Job", "Name", "User", "Account", "Queue", "Runs for", "GPUs", "GPU use", "Tokens/s", "MFU")
    first, second = jobs.rows
    assert first.cells[:5] == ("41", "llama-8b", "alice", "research", "gpu") and first.cells[6] == "32"
    assert second.cells[1] == "ablation-7" and second.cells[9].endswith(" %")
    assert [row.cells[:3] for row in nodes.rows] == [("gpu-st-p5-6", "gpu", "gpu-check: GPU 5: NVLink 3 is down")]


def test_charts_have_the_units_that_fit(report: Report) -> None:
    charts = {chart.title: chart for chart in report.charts}
    assert list(charts) == [panel.title for panel in OVERVIEW.panels if panel.kind in ("lines", "stacked")]
    assert charts["EFA traffic"].unit == "TB/s" and charts["MFU by job"].unit == "%"
    assert charts["Tokens/s by job"].series == ("job 41", "job 44")
    assert 100 <= len(charts["GPUs"].points) <= 121
    assert all(len(row) == len(chart.series) + 1 for chart in report.charts for row in chart.points)


def test_page_loads_nothing_and_is_safe(address: str) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    query = "query max by (node, queue, reason) (slurm_node_reason)"
    answer = {"result": [{"metric": {"node": "n1", "queue": "q", "reason": evil}, "value": [NOW, "1"]}]}
    with recorded(changed(query, answer)) as other:
        content = html(overview_report("local", Prometheus(other), NOW, 30))
    assert content.startswith("<!doctype html>") and "<img" not in content and "default-src 'none'" in content
    assert not Loads(content).found and '<meta http-equiv="refresh" content="30">' in content
    assert len(charts_of(content)) == len([panel for panel in OVERVIEW.panels if panel.kind in ("lines", "stacked")])
    assert "refresh" not in html(overview_report("local", Prometheus(address), NOW))


def test_without_metrics() -> None:
    """An empty Prometheus: unknown is not zero, and nothing is bad."""
    empty: dict[str, Any] = {key: {"alerts": []} if key == "alerts" else {"result": []} for key in RECORDED["answers"]}
    with recorded(empty) as address:
        report = overview_report("local", Prometheus(address), NOW)
    assert {figure.value for figure in report.figures} == {"unknown"} and report.headline == "No alert fires."
    assert report.tone is Tone.GOOD and not report.title.endswith("(simulated)")
    assert not report.charts and report.notes[0].startswith("Without data: GPU use by queue, GPUs, ")
    assert "<script" not in html(report)


def test_many_lines_and_rows_are_cut() -> None:
    def over_time(job: int) -> dict[str, Any]:
        return {"metric": {"job": str(job)}, "values": [[NOW - 30, str(job)], [NOW, "NaN"]]}

    key = "query_range max by (job) (training_tokens_per_second)"
    with recorded(changed(key, {"result": [over_time(job) for job in range(40)]})) as address:
        report = overview_report("local", Prometheus(address), NOW)
    [chart] = [one for one in report.charts if one.title.startswith("Tokens/s by job")]
    assert chart.title == "Tokens/s by job (the highest 8 of 40 lines)" and chart.series[0] == "job 39"
    start, before, now = chart.points
    assert before == (NOW - 30, *range(39, 31, -1)) and set(now[1:]) == {None}
    assert start[0] == NOW - 3600 and set(start[1:]) == {None}


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "short", "unknown"),
        (0, "short", "0"),
        (7210, "short", "7,210"),
        (692_610, "short", "693 k"),
        (0.8125, "percentunit", "81.2 %"),
        (3.1e11, "Bps", "310 GB/s"),
        (5400, "s", "1.5 h"),
        (-0.5, "s", "-0.5 s"),
    ],
)
def test_values(value: float | None, unit: Unit, shown: str) -> None:
    assert _text(value, unit) == shown


def test_server(address: str) -> None:
    """On loopback only, for names of loopback only, one path only."""
    with server("local", Prometheus(address), 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        assert running.server_address[0] == "127.0.0.1"
        url = f"http://127.0.0.1:{running.server_port}"
        # The recorded queries have no time in them, so the page of now has the same answers.
        good = urllib3.request("GET", f"{url}/", timeout=60)
        assert good.status == 200 and b"2 urgent alerts" in good.data and good.headers["Cache-Control"] == "no-store"
        assert urllib3.request("GET", f"{url}/etc/passwd", timeout=60).status == 404
        assert urllib3.request("GET", f"{url}/", headers={"Host": "evil.example"}, timeout=60).status == 404
        with pytest.raises(Problem, match=f"Port {running.server_port} of 127.0.0.1 cannot be used: .*--port"):
            server("local", Prometheus(address), running.server_port)
        running.shutdown()


def test_page_says_why_it_is_empty() -> None:
    content = page("local", Prometheus("http://127.0.0.1:1"), 30)
    assert "Prometheus does not answer at http://127.0.0.1:1" in content and "trainyard connect" in content


def test_wrong_answers() -> None:
    with recorded({}) as address, pytest.raises(Problem, match=r"refused .*no answer to query"):
        overview_report("local", Prometheus(address), NOW)
    with recorded({"alerts": {}}) as address, pytest.raises(Problem, match="not as Prometheus does"):
        Prometheus(f"{address}").alerts()


def run(*words: str) -> int:
    try:
        return main([*words])
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "9000"], "--port: only with --web"),
        (["--output", "x.html"], "--output: only with --web"),
        (["--web", "--port", "9000", "--output", "x.html"], "--port: not with --output"),
        (["--web", "--output", "x.html", "--prometheus", "http://127.0.0.1:1"], "Prometheus does not answer"),
        (["--web", "--prometheus", "127.0.0.1:9090"], "allowed: http:// or https://"),
        (["--web", "--prometheus", "http://host/?a=b"], "allowed: http:// or https://"),
    ],
)
def test_wrong_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "local", *words) == 4
    assert said in capsys.readouterr().err


def test_modes_without_prometheus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = yaml.safe_load((Path(__file__).parents[3] / "environments" / "local.yaml").read_text())
    for mode in overview._WITHOUT:
        file = tmp_path / "some.yaml"
        file.write_text(yaml.safe_dump({**content, "name": "some", "observability": mode}))
        assert run("status", str(file), "--web") == 4
        assert f"some: observability.mode is {mode}" in capsys.readouterr().err


def test_output(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "overview.html"
    assert run("status", "local", "--web", "--output", str(file), "--prometheus", address) == 0
    assert "2 urgent alerts" in file.read_text() and f"Wrote {file}" in capsys.readouterr().out


@pytest.mark.lab
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)], ids=["light", "dark, as wide as a phone"])
def test_browser_draws_every_chart(tmp_path: Path, report: Report, width: int, dark: bool) -> None:
    """Without errors, and the page does not scroll to the side."""
    assert show(html(report), tmp_path, width, dark=dark) == Shown(len(report.charts), True, width, dark)
