"""The report as a comment on a pull request, or as a pipeline's artifact."""

from __future__ import annotations

from collections.abc import Iterator

from ops.preflight.line import Line, Report, Verdict


def render(report: Report) -> str:
    """Markdown: the verdict, what is to be done, and the other lines folded in."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"### Preflight of `{report.environment}` in {report.account}, {report.region}"
    yield ""
    yield f"> [!{'NOTE' if report.ready else 'CAUTION'}]"
    yield f"> **{_cell(report.headline)}**"
    todo = [line for line in report.lines if line.todo and line.verdict is not Verdict.NOTE]
    rest = [line for line in report.lines if line not in todo]
    if todo:
        yield ""
        yield "| Verdict | Check | Asked | Found | Wanted | What to do |"
        yield "|---|---|---|---|---|---|"
        for line in todo:
            yield f"{_row(line)} {_cell(line.todo)} |"
    if rest:
        yield ""
        yield f"<details><summary>{len(rest)} more lines</summary>"
        yield ""
        yield "| Verdict | Check | Asked | Found | Wanted |"
        yield "|---|---|---|---|---|"
        for line in rest:
            yield _row(line)
        yield ""
        yield "</details>"


def _row(line: Line) -> str:
    cells = (str(line.verdict), f"{line.check}: {line.subject}", line.asked, line.found, line.wanted)
    return "".join(f"| {_cell(cell)} " for cell in cells) + "|"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
