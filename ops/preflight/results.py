"""The results of a preflight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a result means. FAULT and UNKNOWN both mean that the account is not ready."""

    FAULT = "fault"
    UNKNOWN = "unknown"
    """The check could not be made, for example because a permission is missing."""
    WARNING = "warning"
    """It works, but somebody should look at it."""
    OK = "ok"
    NOTE = "note"
    """There was nothing to check; the result says why."""


_COUNTED = {
    Verdict.FAULT: "faults",
    Verdict.UNKNOWN: "unknown",
    Verdict.WARNING: "warnings",
    Verdict.OK: "ok",
    Verdict.NOTE: "notes",
}


@dataclass(frozen=True)
class CheckResult:
    """One result of a check.

    Attributes:
        subject: what was checked, in the environment file's words if it has some.
        asked: the API call or other source.
        found: the answer.
        wanted: what the environment needs.
        todo: what to do next; empty if there is nothing to do.
        check: the group of the check: capacity, quotas ... (`checks.run` sets it).
    """

    subject: str
    asked: str
    found: str
    wanted: str
    verdict: Verdict
    todo: str = ""
    check: str = ""


def judged(subject: str, asked: str, found: str, wanted: str, *, ok: bool, todo: str) -> CheckResult:
    """OK, or a fault with what to do."""
    return CheckResult(subject, asked, found, wanted, Verdict.OK if ok else Verdict.FAULT, "" if ok else todo)


def note(subject: str, found: str, wanted: str, todo: str = "") -> CheckResult:
    """A result for which nothing was asked."""
    return CheckResult(subject, "nothing", found, wanted, Verdict.NOTE, todo)


@dataclass(frozen=True)
class Report:
    """All results of one preflight."""

    environment: str
    account: str
    region: str
    results: tuple[CheckResult, ...]
    simulated: bool = False

    @property
    def ready(self) -> bool:
        """Whether nothing speaks against a deployment."""
        return not any(result.verdict in (Verdict.FAULT, Verdict.UNKNOWN) for result in self.results)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        verdicts = [result.verdict for result in self.results]
        counts = [f"{verdicts.count(verdict)} {words}" for verdict, words in _COUNTED.items() if verdict in verdicts]
        return f"{'READY' if self.ready else 'NOT READY'}: {', '.join(counts) or 'nothing asked'}"
