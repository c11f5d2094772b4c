"""The report of `trainyard validate`."""

from __future__ import annotations

from dataclasses import asdict

from ops.report.model import Alert, Report, Row, Section, Tone
from ops.validation.report import Outcome
from ops.validation.report import Report as Validation

_TONES = {
    Outcome.PASSED: Tone.GOOD,
    Outcome.WARNING: Tone.WARNING,
    Outcome.FAILED: Tone.BAD,
    Outcome.NOT_ASKED: Tone.QUIET,
}


def validation_report(validation: Validation) -> Report:
    """Every check with what it found, and the output of failed jobs."""
    rows = tuple(
        Row(
            (str(line.outcome), line.check, line.where, line.asked, line.found, line.wanted, line.action),
            _TONES[line.outcome],
            line.output,
        )
        for line in validation.lines
    )
    return Report(
        title=f"Validation of {validation.environment}: cluster {validation.cluster}, on {validation.head_node}",
        headline=validation.headline,
        tone=Tone.GOOD if validation.passed else Tone.BAD,
        alert=Alert.NOTE if validation.passed else Alert.CAUTION,
        data={
            "environment": validation.environment,
            "cluster": validation.cluster,
            "head_node": validation.head_node,
            "passed": validation.passed,
            "exit": validation.exit,
            "headline": validation.headline,
            "lines": [asdict(line) for line in validation.lines],
        },
        sections=(Section("Checks", ("Verdict", "Check", "Where", "Asked", "Found", "Wanted", "Do"), rows, lead=4),),
    )
