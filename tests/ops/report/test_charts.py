"""Charts of the HTML report: what is in the page, and what a browser draws."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ops.report import Chart, Report, Tone, html
from ops.report.commands import validation_report
from ops.report.rendering import _UPLOT
from ops.validation import judge
from ops.validation.plan import BURN, Job, Place
from tests.ops.report.browser import Shown, show
from tests.ops.report.sample import SLOW, of_pairs, sample
from tests.ops.validation.fakes import ended, results

SHA256 = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


class Loads(HTMLParser):
    """Attributes of a page with which a browser loads something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, name) for name, _ in attrs if name in ("src", "href", "srcset", "data", "action")]


def charts_of(page: str) -> list[dict[str, Any]]:
    [data] = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL)
    found: list[dict[str, Any]] = json.loads(data)
    return found


@pytest.mark.parametrize("simulated", [False, True])
def test_page_has_the_figures_and_loads_nothing(tmp_path: Path, simulated: bool) -> None:
    page = html(validation_report(sample(tmp_path, simulated=simulated)))
    charts = charts_of(page)
    assert [chart["kind"] for chart in charts] == ["matrix", "bars", *["sizes"] * 6, "bars", "bars", "bars"]
    [reduced] = [chart for chart in charts if chart["title"].startswith("all_reduce")]
    assert [1 << 30, 328.1, 280] in reduced["points"] and reduced["series"][1].startswith("floor")
    assert [one for one, row in zip(charts[1]["labels"], charts[1]["points"], strict=True) if row[1] < row[2]] == [SLOW]
    names = [name for chart in charts for name in (chart["title"], *chart["series"])]
    assert {name.endswith("(simulated)") for name in names} == {simulated}
    # The policy forbids a browser to load anything; only the library's own banner has an address.
    assert "default-src 'none'" in page and not Loads(page).found
    assert re.findall(r"https?://[^\s\"]+", page) == ["https://github.com/leeoniya/uPlot"]
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", page)
    assert page.index("hello-gpu on gpu-st") < page.index("<figure>") < page.index("<table>")


def test_names_cannot_end_the_script() -> None:
    nasty = "</script><img src=x onerror=alert(1)>"
    chart = Chart("bars", nasty, nasty, ((0, 1),), (nasty,), (nasty,))
    page = html(Report("title", "headline", Tone.GOOD, {}, charts=(chart,)))
    assert page.count("</script>") == 2 and "<img" not in page
    assert charts_of(page)[0]["labels"] == [nasty]


def test_library_is_the_published_one() -> None:
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in _UPLOT.iterdir()} == SHA256


@pytest.mark.parametrize("nodes", [80, 1000])
def test_pairs_of_many_nodes_fit_systems_manager(tmp_path: Path, nodes: int) -> None:
    """All pairs of 80 nodes; of 1,000 the slowest nodes."""
    found = of_pairs(tmp_path, nodes)
    assert len(json.dumps(found)) <= results.MOST_JSON + 200
    assert ("figures" in found) is (nodes == 80)
    if nodes == 1000:
        assert found["slowest"][0][0] == SLOW and len(found["slowest"]) == results.MOST_SLOWEST  # type: ignore[index, arg-type]


@pytest.mark.lab
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)], ids=["light", "dark, as wide as a phone"])
def test_browser_draws_every_chart(tmp_path: Path, width: int, dark: bool) -> None:
    """Without errors, and the page does not scroll to the side."""
    page = html(validation_report(sample(tmp_path)))
    assert show(page, tmp_path, width, dark=dark) == Shown(page.count("<figure>"), True, width, dark)


def test_slowest_gpu_of_each_node(tmp_path: Path) -> None:
    """From a verdict of gpu_burn.py; a node without an answer has a bar without height."""
    gpus = [{"tflops": 700.0}, {"tflops": 512.5}, {"error": "no figure"}]
    figures = {"n1": {"gpus": gpus}, "n2": {"error": "no answer"}}
    peers = {"NVIDIA H200": {"tflops": 700.0, "gb_s": 3900.0}}
    verdict = {"passed": True, "gpus": 2, "peers": peers, "margin_percent": 10, "xids_unread": 0, "faults": []}
    (tmp_path / "verdict.json").write_text(json.dumps({**verdict, "figures": figures}))
    [line] = judge.ended(
        Job(BURN, Place("gpu", "gpu/p5", 2, 1), ("--seconds", "60")),
        ended(result=results.of("gpu-burn", tmp_path, "")),
    )
    [chart] = line.charts
    assert (chart.labels, chart.points) == (("n2", "n1"), ((0, 0.0), (1, 512.5)))
    assert line.figures["TFLOP/s, NVIDIA H200"] == 700.0
    many = {f"n{number}": {"gpus": [{"tflops": 500.0 + number}]} for number in range(1000)}
    (tmp_path / "verdict.json").write_text(json.dumps({**verdict, "figures": many}))
    slowest = results.of("gpu-burn", tmp_path, "")["slowest"]
    assert len(slowest) == results.MOST_SLOWEST and slowest[0] == ("n0", 500.0)
