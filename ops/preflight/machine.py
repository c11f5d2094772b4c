"""The report for programs: one JSON object."""

from __future__ import annotations

import json
from dataclasses import asdict

from ops.preflight.line import Report


def render(report: Report) -> str:
    """`environment`, `account`, `region`, `ready`, `exit`, `headline`, and `lines` with the fields of `Line`."""
    return json.dumps(
        {
            "environment": report.environment,
            "account": report.account,
            "region": report.region,
            "ready": report.ready,
            "exit": 0 if report.ready else 1,
            "headline": report.headline,
            "lines": [asdict(line) for line in report.lines],
        },
        indent=2,
    )
