"""The result of a validation: one line per check, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HEAD_SCAN = "head-scan"
"""The only check that uses no compute node."""


class Outcome(StrEnum):
    """Outcome of a check. A warning passes; NOT_ASKED says nothing about the cluster."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
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
        simulated: the answer rests on stand-ins of the emulated AWS; `found` says so too.
    """

    check: str
    where: str
    asked: str
    found: str
    wanted: str
    outcome: Outcome
    action: str = ""
    output: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class NodeTime:
    """What the jobs on a compute resource use, without the start of its nodes and their idle time afterwards.

    Attributes:
        where: the compute resource.
        instance: its instance types.
        node_hours: of its nodes together.
        hourly: USD on demand for an hour of one node; None if the price is unknown.
    """

    where: str
    instance: str
    node_hours: float
    hourly: float | None = None

    @property
    def usd(self) -> float | None:
        return None if self.hourly is None else round(self.node_hours * self.hourly, 2)

    def __str__(self) -> str:
        price = "price unknown" if self.usd is None else f"${self.usd:,.2f}"
        return f"{self.where}: {self.node_hours:.2f} node hours of {self.instance}, {price}"


@dataclass(frozen=True)
class Report:
    """A validation of one environment.

    Attributes:
        head_node: the instance that was asked.
        simulated: the cluster is one of the emulated AWS.
        used: node time of each compute resource that ran jobs.
    """

    environment: str
    cluster: str
    head_node: str
    lines: tuple[Line, ...]
    simulated: bool = False
    used: tuple[NodeTime, ...] = ()

    @property
    def passed(self) -> bool:
        """Nothing failed, and at least one check ran."""
        outcomes = {line.outcome for line in self.lines}
        return Outcome.FAILED not in outcomes and bool(outcomes & {Outcome.PASSED, Outcome.WARNING})

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        verdict = ("PASSED" if self.passed else "FAILED") + (" (simulated)" if self.simulated else "")
        outcomes = [line.outcome for line in self.lines]
        counts = f"{outcomes.count(Outcome.PASSED)} passed"
        for outcome in (Outcome.FAILED, Outcome.WARNING, Outcome.NOT_ASKED):
            if number := outcomes.count(outcome):
                counts += f", {number} {outcome}{'s' if outcome is Outcome.WARNING and number > 1 else ''}"
        failed = [f"{line.check} on {line.where}" for line in self.lines if line.outcome is Outcome.FAILED]
        if failed:
            return f"{verdict}: {', '.join(dict.fromkeys(failed))} ({counts})"
        if not self.passed:
            return f"{verdict}: nothing was asked of the cluster ({counts})"
        asked = {line.check for line in self.lines if line.outcome is not Outcome.NOT_ASKED}
        if asked == {HEAD_SCAN} and Outcome.NOT_ASKED in outcomes:
            return f"{verdict} on the head node alone, no other node was asked: {counts}"
        return f"{verdict}: {counts}"
