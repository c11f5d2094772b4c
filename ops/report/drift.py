"""The report of `trainyard drift`."""

from __future__ import annotations

from collections.abc import Iterator

from ops.drift.findings import Level
from ops.drift.findings import Report as Drift
from ops.report.model import Alert, Code, Report, Row, Section, Tone
from ops.review.structure import ABSENT, shown

TYPES = 12
"""Types of resources that are named among those that were not compared."""

_TONES = {Level.NONE: Tone.GOOD, Level.DRIFT: Tone.BAD, Level.UNKNOWN: Tone.WARNING}
_ALERTS = {Level.NONE: Alert.NOTE, Level.DRIFT: Alert.WARNING, Level.UNKNOWN: Alert.CAUTION}


def drift_report(drift: Drift) -> Report:
    """Every difference between what was deployed and what exists, and what was not compared."""
    rows = tuple(
        Row(
            (
                finding.part,
                finding.subject,
                Code(finding.path),
                Code(shown(finding.expected)),
                Code(shown(finding.actual)),
                finding.advice,
            )
        )
        for finding in drift.findings
    )
    columns = ("Where", "What", "Property", "Deployed", "Actual", "Do")
    return Report(
        title=f"Drift of {drift.environment} in {drift.account}",
        headline=drift.headline,
        tone=_TONES[drift.level],
        alert=_ALERTS[drift.level],
        data=_data(drift),
        sections=(Section("Differences", columns, rows, lead=2),),
        notes=tuple(_notes(drift)),
    )


def _notes(drift: Drift) -> Iterator[str]:
    for reason in drift.missing:
        yield f"Not compared: {reason}"
    if drift.edits:
        yield drift.edits
    if drift.unchecked:
        named = [f"{kind} ({count})" for kind, count in drift.unchecked.most_common(TYPES)]
        more = len(drift.unchecked) - TYPES
        rest = f" and {more} more types" if more > 0 else ""
        total = sum(drift.unchecked.values())
        yield f"Neither CloudFormation nor this command compares {total} resources: {', '.join(named)}{rest}."


def _data(drift: Drift) -> dict[str, object]:
    return {
        "environment": drift.environment,
        "account": drift.account,
        "level": drift.level.name.lower(),
        "exit": int(drift.level),
        "headline": drift.headline,
        "findings": [
            {
                "part": finding.part,
                "subject": finding.subject,
                "path": finding.path,
                "expected": None if finding.expected is ABSENT else finding.expected,
                "actual": None if finding.actual is ABSENT else finding.actual,
                "advice": finding.advice,
            }
            for finding in drift.findings
        ],
        "checked": drift.checked,
        "unchecked": dict(sorted(drift.unchecked.items())),
        "missing": drift.missing,
        "undeployed": dict(drift.undeployed),
    }
