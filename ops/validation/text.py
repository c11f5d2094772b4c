"""The report for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ops.validation.report import Line, Outcome, Report

_COLOURS = {
    Outcome.PASSED: "green",
    Outcome.WARNING: "yellow",
    Outcome.FAILED: "bold red",
    Outcome.NOT_ASKED: "dim",
}


def show(report: Report, console: Console) -> None:
    """The verdict in one line, then every question."""
    colour = "green" if report.passed else "bold red"
    console.print(f"[{colour}]{escape(report.headline)}[/]", soft_wrap=True)
    console.print(
        f"[dim]{escape(report.environment)}: cluster {escape(report.cluster)}, asked on {escape(report.head_node)}[/]",
        soft_wrap=True,
    )
    for line in report.lines:
        _line(line, console)


def _line(line: Line, console: Console) -> None:
    mark = f"[{_COLOURS[line.outcome]}]{line.outcome.value:<9}[/]"
    console.print(f"\n{mark} [bold]{escape(line.check)}[/]  {escape(line.where)}: {escape(line.asked)}", soft_wrap=True)
    console.print(f"          found {escape(line.found)}; wanted {escape(line.wanted)}", soft_wrap=True)
    if line.action:
        console.print(f"          do: {escape(line.action)}", soft_wrap=True)
    for text in line.output.splitlines():
        console.print(f"          | {text}", markup=False, soft_wrap=True, style="dim")
