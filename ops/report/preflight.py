"""The report of `trainyard preflight`."""

from __future__ import annotations

from dataclasses import asdict

from ops.preflight.results import CheckResult, Verdict
from ops.preflight.results import Report as Preflight
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
    todo = [result for result in preflight.results if result.todo and result.verdict is not Verdict.NOTE]
    rest = [result for result in preflight.results if result not in todo]
    actions = tuple(Row((*_cells(result), result.todo), _TONES[result.verdict]) for result in todo)
    others = tuple(Row(_cells(result), _TONES[result.verdict]) for result in rest)
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
            "lines": [asdict(result) for result in preflight.results],
        },
        sections=(
            Section("What to do", (*_COLUMNS, "Do"), actions, lead=2),
            Section(f"{len(rest)} other results", _COLUMNS, others, folded=True),
        ),
    )


def _cells(result: CheckResult) -> tuple[str, ...]:
    return str(result.verdict), f"{result.check}: {result.subject}", result.asked, result.found, result.wanted
