"""The report as a comment or an artifact of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from ops.validation.report import Outcome, Report


def render(report: Report) -> str:
    """Markdown: the verdict, a table, and the outputs of jobs that failed, folded."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"### Validation of `{report.environment}`"
    yield ""
    yield f"> [!{'NOTE' if report.passed else 'CAUTION'}]"
    yield f"> **{_cell(report.headline)}**"
    yield ""
    yield f"Cluster `{report.cluster}`, asked on `{report.head_node}`."
    yield ""
    yield "| Verdict | Check | Where | Asked | Found | Wanted | What to do |"
    yield "|---|---|---|---|---|---|---|"
    for line in report.lines:
        verdict = f"**{line.outcome}**" if line.outcome is Outcome.FAILED else str(line.outcome)
        cells = (line.check, line.where, line.asked, line.found, line.wanted, line.action)
        yield f"| {verdict} | {' | '.join(_cell(cell) for cell in cells)} |"
    for line in report.lines:
        if line.output:
            yield ""
            yield f"<details><summary>{_cell(line.check)} on {_cell(line.where)}: the end of its output</summary>"
            yield ""
            yield "```"
            yield line.output.replace("```", "'''")
            yield "```"
            yield ""
            yield "</details>"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
