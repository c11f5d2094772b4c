"""The result of a validation: one line per check, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HEAD_SCAN = "head-scan"
"""The only check that uses no compute node."""


class Outcome(StrEnum):
    """Outcome of a check. A warning passes; NOT_ASKED says nothing about the cluster."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Line:
    """One question and its answer, in words.

    Attributes:
        check: which check it belongs to (`validation.plan.CHECKS`).
        where: the node, queue or mount that was asked.
        asked, found, wanted: the question, the answer, and what would have passed.
        action: what to do; empty if nothing.
        output: the end of the job's output, if that helps.
    """

    check: str
    where: str
    asked: str
    found: str
    wanted: str
    outcome: Outcome
    action: str = ""
    output: str = ""


@dataclass(frozen=True)
class Report:
    """A validation of one environment. `head_node` is the instance that was asked."""

    environment: str
    cluster: str
    head_node: str
    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """Nothing failed, and at least one check ran."""
        return not self._of(Outcome.FAILED) and bool(self._of(Outcome.PASSED) or self._of(Outcome.WARNING))

    @property
    def exit(self) -> int:
        """The exit status of the command: 0 passed, 1 failed."""
        return 0 if self.passed else 1

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        passed, failed = len(self._of(Outcome.PASSED)), self._of(Outcome.FAILED)
        counts = [f"{passed} passed"]
        counts += [f"{len(failed)} failed"] if failed else []
        for outcome in (Outcome.WARNING, Outcome.NOT_ASKED):
            if found := self._of(outcome):
                plural = "s" if outcome is Outcome.WARNING and len(found) > 1 else ""
                counts.append(f"{len(found)} {outcome}{plural}")
        if failed:
            where = ", ".join(dict.fromkeys(f"{line.check} on {line.where}" for line in failed))
            return f"FAILED: {where} ({', '.join(counts)})"
        if not self.passed:
            return f"FAILED: nothing was asked of the cluster ({', '.join(counts)})"
        answered = {line.check for line in (*self._of(Outcome.PASSED), *self._of(Outcome.WARNING))}
        if self._of(Outcome.NOT_ASKED) and answered == {HEAD_SCAN}:
            return f"PASSED on the head node alone, no other node was asked: {', '.join(counts)}"
        return f"PASSED: {', '.join(counts)}"

    def _of(self, outcome: Outcome) -> list[Line]:
        return [line for line in self.lines if line.outcome is outcome]
