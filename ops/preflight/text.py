"""The report for a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ops.preflight.line import Line, Report, Verdict

COLOURS = {
    Verdict.OK: "green",
    Verdict.NOTE: "dim",
    Verdict.WARNING: "yellow",
    Verdict.FAULT: "bold red",
    Verdict.UNKNOWN: "bold magenta",
}


def show(report: Report, console: Console) -> None:
    """The verdict in one line, what is wrong with what to do, then every line by its group."""
    console.print(f"[{'green' if report.ready else 'bold red'}]{escape(report.headline)}[/]", soft_wrap=True)
    console.print(f"[dim]{escape(report.environment)} in account {report.account}, {report.region}[/]", soft_wrap=True)
    todo = [line for line in report.lines if line.todo and line.verdict is not Verdict.NOTE]
    for line in todo:
        colour = COLOURS[line.verdict]
        console.print(
            f"\n[{colour}]{line.verdict.upper()}[/]  {escape(line.check)}: {escape(line.subject)}", soft_wrap=True
        )
        for what, said in (("asked", line.asked), ("found", line.found), ("wanted", line.wanted), ("do", line.todo)):
            console.print(f"  {what + ':':<8}{escape(said)}", soft_wrap=True)
    for name, lines in groupby(report.lines, key=lambda line: line.check):
        console.print()
        console.print(_table(name, list(lines)))


def _table(name: str, lines: list[Line]) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("", width=max(map(len, Verdict)))
    for heading, ratio in (("asked about", 4), ("found", 5), ("wanted", 5)):
        table.add_column(heading, ratio=ratio, overflow="fold")
    for line in lines:
        verdict = f"[{COLOURS[line.verdict]}]{line.verdict}[/]"
        table.add_row(
            verdict, f"{escape(line.subject)}\n[dim]{escape(line.asked)}[/]", escape(line.found), escape(line.wanted)
        )
    return table
