"""Says at the end how many sequences of events were walked."""

import pytest
from hypothesis import settings

settings.register_profile("deep", max_examples=3000, stateful_step_count=12, deadline=None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "sequences":
                    terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
