"""What a preflight says: lines, each an answer to one question."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What an answer means.

    NOTE: nothing was to be asked, and why. WARNING: it works, but should be looked at. UNKNOWN: the question could not
    be asked or not answered. Everything here is asked because it must be known, so FAULT and UNKNOWN both mean that
    the account is not ready.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"
    UNKNOWN = "unknown"


BLOCKING = (Verdict.FAULT, Verdict.UNKNOWN)


@dataclass(frozen=True)
class Line:
    """One answer.

    Attributes:
        check: the subject's group: capacity, quotas ...
        subject: what it is about, in the environment file's words where it has some.
        asked: of whom or by which call.
        found: the answer.
        wanted: what the environment needs.
        verdict: see `Verdict`.
        todo: what to do next; empty where there is nothing to do.
    """

    check: str
    subject: str
    asked: str
    found: str
    wanted: str
    verdict: Verdict
    todo: str = ""


@dataclass(frozen=True)
class Report:
    """All lines of one preflight."""

    environment: str
    account: str
    region: str
    lines: tuple[Line, ...]

    @property
    def ready(self) -> bool:
        """Whether nothing speaks against a deployment."""
        return not any(line.verdict in BLOCKING for line in self.lines)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        counts = {verdict: sum(line.verdict is verdict for line in self.lines) for verdict in Verdict}
        said = [
            f"{counts[verdict]} {words}"
            for verdict, words in (
                (Verdict.FAULT, "faults"),
                (Verdict.UNKNOWN, "unknown"),
                (Verdict.WARNING, "warnings"),
                (Verdict.OK, "ok"),
                (Verdict.NOTE, "notes"),
            )
            if counts[verdict]
        ]
        return f"{'READY' if self.ready else 'NOT READY'}: {', '.join(said) or 'nothing asked'}"
