"""The overview dashboard as a report, from what Prometheus has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from ops.overview.prometheus import Prometheus, Sample
from ops.report import Chart, Code, Figure, Report, Row, Section, Tone
from trainyard.dashboards.cluster import OVERVIEW
from trainyard.dashboards.model import Panel, Unit, with_values

SPAN = 3600
"""Seconds that the charts show by default, in steps of 30 seconds."""
MOST_LINES = 8
MOST_ROWS = 40

_SIMULATED = 'count(DCGM_FI_DEV_GPU_UTIL{modelName=~"(?i).*simulated.*"})'
_SCALES: Mapping[Unit, Sequence[tuple[float, str]]] = {
    "short": ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")),
    "percentunit": ((0.01, "%"),),
    "bytes": ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB")),
    "Bps": ((1, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")),
    "celsius": ((1, "°C"),),
    "watt": ((1, "W"), (1e3, "kW"), (1e6, "MW")),
    "hertz": ((1e6, "MHz"), (1e9, "GHz")),
    "s": ((1, "s"), (60, "min"), (3600, "h"), (86400, "days")),
    "cps": ((1, "per second"),),
    "currencyUSD": ((1, "USD"),),
}

Found = Mapping[tuple[str, str], list[Sample]]
"""What Prometheus has for a query, by the panel's title and the query's legend."""


def overview(environment: str, prometheus: Prometheus, now: float, refresh: int = 0, *, span: int = SPAN) -> Report:
    """The page. It loads itself again after `refresh` seconds, 0 for never; its charts show the last `span` seconds.

    Raises:
        Problem: see `Prometheus`.
    """
    found = _ask(prometheus, now, span)
    alerts = sorted(prometheus.alerts(), key=lambda one: (one["labels"].get("severity", ""), one["activeAt"]))
    simulated = bool(prometheus.instant(_SIMULATED, now))
    urgent = [one for one in alerts if one["labels"].get("severity") == "page"]
    named = f"{_plural(len(urgent), 'urgent alert')}, {_plural(len(alerts) - len(urgent), 'warning')}"
    charts = [_chart(panel, found, now, span) for panel in OVERVIEW.panels if panel.kind in ("lines", "stacked")]
    empty = ", ".join(chart.title for chart in charts if not chart.series)
    return Report(
        title=f"{environment}: overview of the last {'hour' if span == SPAN else f'{span} seconds'}, {_time(now)}"
        + (" (simulated)" if simulated else ""),
        headline=f"{named}." if alerts else "No alert fires.",
        tone=Tone.BAD if urgent else Tone.WARNING if alerts else Tone.GOOD,
        data={},
        refresh=refresh,
        figures=tuple(_figure(panel, found) for panel in OVERVIEW.panels if panel.kind == "figure"),
        alarm=Section(
            "Alerts", ("Severity", "Alert", "What", "First command", "Since (UTC)"), tuple(map(_alert, alerts))
        ),
        charts=tuple(chart for chart in charts if chart.series),
        sections=tuple(_section(panel, found) for panel in OVERVIEW.panels if panel.kind == "table"),
        notes=(f"Without data: {empty}.",) if empty else (),
    )


def _ask(prometheus: Prometheus, now: float, span: int) -> Found:
    step = max(span // 120, 1)

    def ask(item: tuple[Panel, str, str]) -> tuple[tuple[str, str], list[Sample]]:
        panel, legend, query = item
        expr = with_values(query, f"{span}s", f"{max(4 * step, 30)}s")
        drawn = panel.kind in ("lines", "stacked")
        samples = prometheus.over_time(expr, now, span, step) if drawn else prometheus.instant(expr, now)
        return (panel.title, legend), samples

    queries = [(panel, *query) for panel in OVERVIEW.panels for query in panel.queries.items()]
    with ThreadPoolExecutor(8) as pool:
        return dict(
            pool.map(ask, [(panel, legend, query) for panel, legend, query in queries if isinstance(query, str)])
        )


def _figure(panel: Panel, found: Found) -> Figure:
    value = next((sample.last for sample in found[panel.title, panel.title]), None)
    tone = Tone.NONE
    if panel.limits and value is not None:
        tone = Tone.BAD if value >= panel.limits[1] else Tone.WARNING if value >= panel.limits[0] else Tone.NONE
    return Figure(panel.title, _text(value, panel.unit), panel.description, tone)


def _chart(panel: Panel, found: Found, now: float, span: int) -> Chart:
    lines = [
        (_legend(legend, sample.labels), dict(sample.points))
        for legend in panel.queries
        for sample in found[panel.title, legend]
    ]
    more = len(lines) - MOST_LINES
    lines = sorted(lines, key=lambda line: -max(filter(None, line[1].values()), default=0))[:MOST_LINES]
    scale, unit = _scale(panel.unit, [value for _, points in lines for value in points.values()])
    # All charts have the same range, however long their series exist.
    times = sorted({now - span, now, *(time for _, points in lines for time in points)})
    rows = tuple((time, *(_over(points.get(time), scale) for _, points in lines)) for time in times)
    title = panel.title + (f" (the highest {MOST_LINES} of {len(lines) + more} lines)" if more > 0 else "")
    return Chart("recent", title, unit, rows, tuple(name for name, _ in lines))


def _section(panel: Panel, found: Found) -> Section:
    first, *others = panel.queries
    rows = []
    for sample in found[panel.title, first]:
        joined = [sample, *(_same(sample, found[panel.title, legend]) for legend in others)]
        values = (
            _text(one.last if one else None, (panel.units or {}).get(legend, panel.unit))
            for legend, one in zip(panel.queries, joined, strict=True)
        )
        labels = (Code(sample.labels.get(label, "")) for label in panel.labels)
        rows.append(Row((*labels, *values)))
    rows.sort(key=lambda row: [(len(cell) if cell.isdigit() else 0, cell) for cell in row.cells])
    note = f"{panel.description} {len(rows)} rows, of which {MOST_ROWS} are shown." if len(rows) > MOST_ROWS else ""
    columns = (*(label.capitalize() for label in panel.labels), *panel.queries)
    return Section(panel.title, columns, tuple(rows[:MOST_ROWS]), note=note or panel.description)


def _same(sample: Sample, others: list[Sample]) -> Sample | None:
    """The one of `others` whose labels `sample` has too."""
    return next((one for one in others if one.labels.items() <= sample.labels.items()), None)


def _alert(alert: Mapping[str, Any]) -> Row:
    labels, notes, since = alert["labels"], alert["annotations"], alert["activeAt"]
    urgent = labels.get("severity") == "page"
    cells = (notes.get("summary", ""), Code(notes.get("command", "")), since[:16].replace("T", " "))
    severity = "urgent" if urgent else labels.get("severity", "")
    return Row((severity, labels["alertname"], *cells), Tone.BAD if urgent else Tone.WARNING)


def _legend(legend: str, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        legend = legend.replace(f"{{{{{name}}}}}", value)
    return " ".join(legend.split())


def _scale(unit: Unit, values: Sequence[float | None]) -> tuple[float, str]:
    """The largest step of the unit in which the highest value is 1 or more, or 10 for numbers without a unit."""
    highest = max((abs(value) for value in values if value is not None), default=0)
    least = 10 if unit == "short" else 1
    fitting = [step for step in _SCALES[unit] if step[0] <= highest / least]
    return fitting[-1] if fitting else _SCALES[unit][0]


def _over(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _text(value: float | None, unit: Unit) -> str:
    if value is None:
        return "unknown"
    scale, name = _scale(unit, [value])
    scaled = value / scale
    digits = 0 if abs(scaled) >= 100 or scaled == int(scaled) else 1
    return f"{scaled:,.{digits}f} {name}".strip()


def _plural(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
