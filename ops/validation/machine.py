"""The report for programs: one JSON object."""

from __future__ import annotations

import json

from ops.validation.report import Report


def render(report: Report) -> str:
    """`passed`, `exit`, `headline`, and `lines` with every field of a line."""
    content = {
        "environment": report.environment,
        "cluster": report.cluster,
        "head_node": report.head_node,
        "passed": report.passed,
        "exit": report.exit,
        "headline": report.headline,
        "lines": [
            {
                "check": line.check,
                "where": line.where,
                "asked": line.asked,
                "found": line.found,
                "wanted": line.wanted,
                "outcome": line.outcome.value,
                "action": line.action,
                "output": line.output,
            }
            for line in report.lines
        ],
    }
    return json.dumps(content, indent=2)
