"""Earlier validations of a cluster, which its file system for results keeps, and what is slower than before."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from ops.report.model import Chart
from ops.validation.report import Earlier, Line, Outcome, Report, figure_key

if TYPE_CHECKING:
    from ops.validation.head_node import HeadNode

DROP_PERCENT = 5
"""A figure that is lower by more than this is a warning."""
_WORD, _WORDS = 200, 20
"""Characters of a word and words of data in a request; the document's pattern takes 200, and 24 words."""
_MOST_SERIES = 8


def earlier(node: HeadNode) -> tuple[Earlier, ...]:
    """The runs that the head node has, the newest first. Raises Refused and Problem."""
    return tuple(Earlier(**run) for run in node.ask("history")["runs"])


def keep(node: HeadNode, run: str, report: str) -> None:
    """Store a report (JSON) in the folder of its run. Raises Refused and Problem."""
    data = base64.urlsafe_b64encode(zlib.compress(report.encode(), 9)).decode()
    words = [data[start : start + _WORD] for start in range(0, len(data), _WORD)]
    parts = [words[start : start + _WORDS] for start in range(0, len(words), _WORDS)]
    for number, part in enumerate(parts, 1):
        node.ask("keep", run, str(number), str(len(parts)), *part)


def slower(lines: Iterable[Line], runs: Iterable[Earlier]) -> Iterator[Line]:
    """A warning for each figure that is lower than in the last run that passed and has it."""
    good = [run for run in runs if run.passed]
    for line in lines:
        for name, value in line.figures.items():
            key = figure_key(line, name)
            last = next((run for run in good if key in run.figures), None)
            before = last.figures[key] if last else 0.0
            if last and value < before * (1 - DROP_PERCENT / 100):
                found = f"{'simulated: ' * line.simulated}{value:.4g} {name}, {100 * (1 - value / before):.0f} % lower"
                wanted = f"{before:.4g} as in the last run that passed, {last.time}"
                action = "validate again; what changed since then? driver, image, nodes, other jobs"
                asked = f"{line.asked}, compared"
                yield Line(
                    line.check, line.where, asked, found, wanted, Outcome.WARNING, action, simulated=line.simulated
                )


def chart(report: Report) -> Iterator[Chart]:
    """The figures of this run in earlier ones, in per cent of this run."""
    now = {key: value for key, value in report.figures.items() if value}
    keys = [key for key in now if any(key in run.figures for run in report.earlier)][:_MOST_SERIES]
    if keys:
        runs = [(run.time, run.figures) for run in reversed(report.earlier)] + [(report.time, now)]
        points = tuple(
            (
                datetime.fromisoformat(time).timestamp(),
                *(round(100 * figures[key] / now[key], 1) if key in figures else None for key in keys),
            )
            for time, figures in runs
        )
        title = f"this run and {len(report.earlier)} earlier"
        yield Chart("times", title, "% of this run", points, tuple(keys), simulated=report.simulated)
