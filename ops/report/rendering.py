"""Writes a report as text (rich), Markdown and HTML (Jinja2 templates), or JSON."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ops.report.model import Code, Report, Section
from ops.review.structure import ABSENT

if TYPE_CHECKING:
    from jinja2 import Template
    from rich.console import Console

FORMATS = ("text", "markdown", "json", "html")
GITHUB_LIMIT = 65_000
"""Characters of a Markdown report; GitHub accepts 65,536 in a comment."""

_ROW_LIMITS = (120, 60, 30, 10, 3, 1)
_TEMPLATES, _UPLOT = Path(__file__).parent / "templates", Path(__file__).parent / "uplot"
"""_UPLOT is dist/ and LICENSE of the npm package uplot 1.6.32, unchanged; a test has the checksums."""
_WIDE = 10_000
"""Columns of a table that no terminal shows, so that no cell is cut or folded."""


def write(report: Report, form: str = "text", output: Path | None = None) -> None:
    """Print a report in one of `FORMATS`, or write it to the file `output`. Raises OSError."""
    if form == "text" and output is None:
        text(report, report_console(sys.stdout))
        return
    content = {"text": _plain, "markdown": markdown, "json": json_text, "html": html}[form](report)
    if output is None:
        sys.stdout.write(content)
    else:
        output.write_text(content, "utf-8")


def _plain(report: Report) -> str:
    from rich.console import Console

    stream = io.StringIO()
    text(report, Console(file=stream, highlight=False, width=_WIDE, force_terminal=False, no_color=True))
    return stream.getvalue()


def report_console(stream: TextIO) -> Console:
    """A console; wide where it writes to a file or a pipe."""
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    return console if console.is_terminal else Console(file=stream, highlight=False, width=_WIDE)


def json_text(report: Report) -> str:
    """One JSON object. Absent values are null."""

    def plain(value: object) -> object:
        return None if value is ABSENT else vars(value)

    return f"{json.dumps({'headline': report.headline, **report.data}, indent=2, default=plain)}\n"


def html(report: Report) -> str:
    """One self-contained page, which loads nothing: the charts' library is in it."""
    library = {path.name: path.read_text("utf-8") for path in _UPLOT.iterdir()} if report.charts else {}
    charts = [_named_simulated(vars(chart)) for chart in report.charts]
    alarm = [report.alarm] if report.alarm and report.alarm.rows else []
    sections = _sections(replace(report, alarm=None))
    return _template("report.html.j2").render(
        report=report, alarm=alarm, sections=sections, charts=charts, library=library
    )


def _named_simulated(chart: dict[str, Any]) -> dict[str, Any]:
    """A chart whose title and legend say that it is simulated, where it is."""
    if not chart["simulated"]:
        return chart
    series = [f"{name} (simulated)" for name in chart["series"]]
    return {**chart, "title": f"{chart['title']} (simulated)", "series": series}


def markdown(report: Report) -> str:
    """Markdown of at most `GITHUB_LIMIT` characters: long tables and the attachment are cut where needed."""
    title, attached = report.attachment
    plain = replace(report, attachment=("", ""))
    content = ""
    for rows in _ROW_LIMITS:
        content = _markdown(plain, rows)
        if len(content) <= GITHUB_LIMIT:
            break
    if shown := attached.strip():
        room = GITHUB_LIMIT - len(content) - 200
        if len(shown) > room:
            shown = f"{shown[: max(room, 0)]}\n(cut; the log of the run has all of it)"
        content = _markdown(replace(report, attachment=(title, shown)), rows)
    return content[:GITHUB_LIMIT]


def text(report: Report, console: Console) -> None:
    """Text for a terminal: the alarm, the headline, the attachment, then the sections."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    def records(section: Section) -> None:
        for row in section.rows:
            lead = "  ".join(escape(cell) for cell in row.cells[1 : section.lead] if cell)
            console.print(f"[{row.tone}]{escape(row.cells[0])}[/]  {lead}".rstrip(), soft_wrap=True)
            for column, cell in list(zip(section.columns, row.cells, strict=True))[section.lead :]:
                if cell:
                    console.print(f"    {column.lower()}: {escape(cell)}", soft_wrap=True)
            for line in row.output.splitlines():
                console.print(f"    | {line}", markup=False, soft_wrap=True, style="dim")

    def table(section: Section) -> None:
        content = Table(*map(escape, section.columns), box=SIMPLE_HEAD, pad_edge=False)
        for column in content.columns:
            column.overflow = "fold"
        for row in section.rows:
            first, *rest = map(escape, row.cells)
            content.add_row(f"[{row.tone}]{first}[/]", *rest)
        console.print(content)

    if report.alarm and report.alarm.rows:
        console.print(f"[{report.tone}]{escape(report.alarm.title).upper()}[/]")
        records(report.alarm)
    console.print(f"[{report.tone}]{escape(report.headline)}[/]\n[dim]{escape(report.title)}[/]", soft_wrap=True)
    if attached := report.attachment[1].strip():
        console.print(f"\n{attached}", markup=False, soft_wrap=True)
    for section in report.sections:
        if section.rows:
            note = f": {escape(section.note)}" if section.note else ""
            console.print(f"\n[bold]{escape(section.title)}[/]{note}", soft_wrap=True)
            (table if section.folded else records)(section)
    for paragraph in report.notes:
        console.print(f"\n{escape(paragraph)}", soft_wrap=True)


def _markdown(report: Report, rows: int) -> str:
    content = _template("report.md.j2").render(report=report, sections=_sections(report), limit=rows)
    return f"{content.strip()}\n"


def _sections(report: Report) -> list[Section]:
    return [section for section in (report.alarm, *report.sections) if section and section.rows]


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(["html.j2"]),
        finalize=None if name.endswith(".html.j2") else markdown_cell,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fenced"] = lambda value: Fenced(value.replace("```", "'''"))
    environment.tests["code"] = lambda value: isinstance(value, Code)
    return environment.get_template(name)


class Fenced(str):
    """Text within a fence, where Markdown has no markup."""

    __slots__ = ()


def markdown_cell(value: object) -> str:
    """Any value in one cell of a table, without Markdown's or HTML's markup."""
    if isinstance(value, Fenced):
        return value
    line = " ".join(str(value).split()).replace("|", "\\|")
    if isinstance(value, Code):
        return f"`{line.replace('`', chr(39))}`" if line else ""
    return line.replace("<", "&lt;")
