"""The report of `trainyard preflight`."""

from __future__ import annotations

from dataclasses import asdict

from ops.preflight.line import Line, Verdict
from ops.preflight.line import Report as Preflight
from ops.report.model import Alert, Report, Row, Section, Tone

_TONES = {
    Verdict.OK: Tone.GOOD,
    Verdict.NOTE: Tone.QUIET,
    Verdict.WARNING: Tone.WARNING,
    Verdict.FAULT: Tone.BAD,
    Verdict.UNKNOWN: Tone.UNKNOWN,
}
_COLUMNS = ("Verdict", "Check", "Asked", "Found", "Wanted")


def preflight_report(preflight: Preflight) -> Report:
    """What needs an action first; every other result folded."""
    todo = [line for line in preflight.lines if line.todo and line.verdict is not Verdict.NOTE]
    rest = [line for line in preflight.lines if line not in todo]
    actions = tuple(Row((*_cells(line), line.todo), _TONES[line.verdict]) for line in todo)
    others = tuple(Row(_cells(line), _TONES[line.verdict]) for line in rest)
    return Report(
        title=f"Preflight of {preflight.environment} in {preflight.account}, {preflight.region}",
        headline=preflight.headline,
        tone=Tone.GOOD if preflight.ready else Tone.BAD,
        alert=Alert.NOTE if preflight.ready else Alert.CAUTION,
        data={
            "environment": preflight.environment,
            "account": preflight.account,
            "region": preflight.region,
            "ready": preflight.ready,
            "exit": 0 if preflight.ready else 1,
            "headline": preflight.headline,
            "lines": [asdict(line) for line in preflight.lines],
        },
        sections=(
            Section("What to do", (*_COLUMNS, "Do"), actions, lead=2),
            Section(f"{len(rest)} other results", _COLUMNS, others, folded=True),
        ),
    )


def _cells(line: Line) -> tuple[str, ...]:
    return str(line.verdict), f"{line.check}: {line.subject}", line.asked, line.found, line.wanted
