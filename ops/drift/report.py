"""The report: for people, as a comment in markdown, for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ops.drift.findings import Finding, Level, Report
from ops.review.structure import ABSENT, shown

WIDTH = 160
"""Columns of a report in a file."""
TYPES = 12
"""Types that nobody compared, as far as they are named."""

_COLOURS = {Level.NONE: "green", Level.DRIFT: "red", Level.UNKNOWN: "yellow"}
_SIGNS = {Level.NONE: "NOTE", Level.DRIFT: "WARNING", Level.UNKNOWN: "CAUTION"}


def write(report: Report, *, form: str, output: Path | None = None) -> None:
    """Print the report in one of review.command.FORMATS, or write it to `output`.

    Raises:
        OSError: the file cannot be written.
    """
    if form == "text":
        if output:
            with output.open("w", encoding="utf-8") as file:
                text(report, Console(file=file, width=WIDTH, highlight=False))
        else:
            text(report, Console(highlight=False))
        return
    content = markdown(report) if form == "markdown" else f"{machine(report)}\n"
    if output:
        output.write_text(content, "utf-8")
    else:
        sys.stdout.write(content)


def text(report: Report, console: Console) -> None:
    """For a terminal."""
    console.print(f"[bold {_COLOURS[report.level]}]{escape(report.headline)}[/]", soft_wrap=True)
    part = subject = ""
    for finding in report.findings:
        if finding.part != part:
            part, subject = finding.part, ""
            console.print(f"\n[bold]{escape(part)}[/]")
        if finding.subject != subject:
            subject = finding.subject
            console.print(f"  {escape(subject)}", soft_wrap=True)
        console.print(f"    {escape(_line(finding))}", soft_wrap=True)
        if finding.advice:
            console.print(f"      [dim]{escape(finding.advice)}[/]", soft_wrap=True)
    for line in _after(report):
        console.print(f"\n{escape(line)}", soft_wrap=True)


def markdown(report: Report) -> str:
    """For a comment on a pull request or an issue."""
    lines = [f"### Drift of `{report.environment}` in {report.account}", "", f"> [!{_SIGNS[report.level]}]"]
    lines.append(f"> **{_cell(report.headline)}**")
    if report.findings:
        lines += ["", "| Where | What | Property | Deployed | Stands | To do |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {_cell(finding.part)} | {_cell(finding.subject)} | {_code(finding.path)} "
            f"| {_code(shown(finding.expected))} | {_code(shown(finding.actual))} | {_cell(finding.advice)} |"
            for finding in report.findings
        ]
    for line in _after(report):
        lines += ["", line]
    return "\n".join(lines) + "\n"


def machine(report: Report) -> str:
    """One JSON object."""
    content: dict[str, Any] = {
        "environment": report.environment,
        "account": report.account,
        "level": report.level.name.lower(),
        "exit": int(report.level),
        "headline": report.headline,
        "findings": [
            {
                "part": finding.part,
                "subject": finding.subject,
                "path": finding.path,
                "expected": _value(finding.expected),
                "actual": _value(finding.actual),
                "advice": finding.advice,
            }
            for finding in report.findings
        ],
        "checked": report.checked,
        "unchecked": dict(sorted(report.unchecked.items())),
        "missing": report.missing,
        "undeployed": dict(report.undeployed),
    }
    return json.dumps(content, indent=2)


def _line(finding: Finding) -> str:
    return f"{finding.path or 'the whole'}: deployed {shown(finding.expected)}, stands {shown(finding.actual)}"


def _after(report: Report) -> Iterator[str]:
    for reason in report.missing:
        yield f"Not looked at: {reason}"
    if report.edits:
        yield report.edits
    if report.unchecked:
        named = [f"{kind} ({count})" for kind, count in report.unchecked.most_common(TYPES)]
        more = len(report.unchecked) - TYPES
        rest = f" and {more} more types" if more > 0 else ""
        total = sum(report.unchecked.values())
        yield f"Neither CloudFormation nor this command compares {total} resources: {', '.join(named)}{rest}."


def _value(value: object) -> object:
    return None if value is ABSENT else value


def _cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")


def _code(value: str) -> str:
    return f"`{_cell(value).replace('`', chr(39))}`" if value else ""
