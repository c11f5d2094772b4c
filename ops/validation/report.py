"""The result of a validation: one line per check, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby

from ops.report.model import Chart

HEAD_SCAN = "head-scan"
"""The only check that uses no compute node."""


class Outcome(StrEnum):
    """Outcome of a check. A warning passes; SKIPPED says nothing about the cluster."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Line:
    """One question and its answer, in words.

    Attributes:
        check: which check it belongs to (`validation.plan.CHECKS`).
        where: the node, queue or mount that was asked.
        asked, found, wanted: the question, the answer, and what would have passed.
        action: what to do; empty if nothing.
        output: the end of the job's output, if that helps.
        simulated: the answer rests on stand-ins of the emulated AWS; `found` says so too.
        figures: what later runs are compared with, by name with its unit; more is better.
        of_node: figures of one node, by name with its unit: a bar each.
        charts: what was measured.
    """

    check: str
    where: str
    asked: str
    found: str
    wanted: str
    outcome: Outcome
    action: str = ""
    output: str = ""
    simulated: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)
    of_node: Mapping[str, float] = field(default_factory=dict)
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class NodeTime:
    """What the jobs on a compute resource use, without the start of its nodes and their idle time afterwards.

    Attributes:
        where: the compute resource.
        instance: its instance types.
        node_hours: of its nodes together.
        hourly: USD on demand for an hour of one node; None if the price is unknown.
    """

    where: str
    instance: str
    node_hours: float
    hourly: float | None = None

    @property
    def usd(self) -> float | None:
        return None if self.hourly is None else round(self.node_hours * self.hourly, 2)

    def __str__(self) -> str:
        price = "price unknown" if self.usd is None else f"${self.usd:,.2f}"
        return f"{self.where}: {self.node_hours:.2f} node hours of {self.instance}, {price}"


@dataclass(frozen=True)
class Earlier:
    """A run that the cluster keeps: its name, when (ISO 8601), and the figures by `figure_key`."""

    run: str
    time: str
    passed: bool
    headline: str
    figures: Mapping[str, float]


def figure_key(line: Line, name: str) -> str:
    """What a figure is found by in another run."""
    return f"{line.check} {line.where}, {line.asked}: {name}"


@dataclass(frozen=True)
class Report:
    """A validation of one environment.

    Attributes:
        head_node: the instance that was asked.
        simulated: the cluster is one of the emulated AWS.
        used: node time of each compute resource that ran jobs.
        time: when it began, ISO 8601.
        earlier: the runs that the cluster keeps, the newest first.
    """

    environment: str
    cluster: str
    head_node: str
    lines: tuple[Line, ...]
    simulated: bool = False
    used: tuple[NodeTime, ...] = ()
    time: str = ""
    earlier: tuple[Earlier, ...] = ()

    @property
    def figures(self) -> dict[str, float]:
        """What later runs are compared with."""
        return {figure_key(line, name): value for line in self.lines for name, value in line.figures.items()}

    @property
    def passed(self) -> bool:
        """Nothing failed, and at least one check ran."""
        outcomes = {line.outcome for line in self.lines}
        return Outcome.FAILED not in outcomes and bool(outcomes & {Outcome.PASSED, Outcome.WARNING})

    @property
    def charts(self) -> Iterator[Chart]:
        """What was measured: the lines' own charts, then a bar per node."""
        for line in self.lines:
            yield from (replace(chart, simulated=line.simulated or chart.simulated) for chart in line.charts)
        bars = [(line.check, name, line) for line in self.lines for name in line.of_node]
        bars.sort(key=lambda bar: bar[:2])
        for (check, name), found in groupby(bars, lambda bar: bar[:2]):
            lines = [line for _, _, line in found]
            points = tuple((place, line.of_node[name]) for place, line in enumerate(lines))
            labels = tuple(line.where for line in lines)
            simulated = any(line.simulated for line in lines)
            yield Chart("bars", f"{check}, each node", name, points, (name,), labels, simulated=simulated)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        verdict = ("PASSED" if self.passed else "FAILED") + (" (simulated)" if self.simulated else "")
        outcomes = [line.outcome for line in self.lines]
        counts = f"{outcomes.count(Outcome.PASSED)} passed"
        for outcome in (Outcome.FAILED, Outcome.WARNING, Outcome.SKIPPED):
            if number := outcomes.count(outcome):
                counts += f", {number} {outcome}{'s' if outcome is Outcome.WARNING and number > 1 else ''}"
        failed = [f"{line.check} on {line.where}" for line in self.lines if line.outcome is Outcome.FAILED]
        if failed:
            return f"{verdict}: {', '.join(dict.fromkeys(failed))} ({counts})"
        if not self.passed:
            return f"{verdict}: no check ran ({counts})"
        asked = {line.check for line in self.lines if line.outcome is not Outcome.SKIPPED}
        if asked == {HEAD_SCAN} and Outcome.SKIPPED in outcomes:
            return f"{verdict} on the head node alone, no check ran on another node: {counts}"
        return f"{verdict}: {counts}"
