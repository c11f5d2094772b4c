"""What is found, and the verdict on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Level(IntEnum):
    """The verdict; its value is the exit status of the command."""

    NONE = 0
    DRIFT = 1
    UNKNOWN = 4


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was deployed.

    Attributes:
        part: where: `cluster`, `assets`, or the name of a stack.
        subject: the resource or key, as a person would find it.
        path: the property within it; empty where the whole is meant.
        expected: what was deployed, ABSENT where nothing was.
        actual: what stands, ABSENT where nothing does.
        advice: what to do about it; empty where the general advice holds.
    """

    part: str
    subject: str
    path: str
    expected: object
    actual: object
    advice: str = ""


@dataclass
class Report:
    """Everything that one run found.

    Attributes:
        checked: resources that were compared, by CloudFormation or here.
        unchecked: types that nobody compared, with the number of resources.
        missing: what could not be looked at, each with its reason: without drift elsewhere there is no verdict then.
        undeployed: resources by stack in which the file differs from the deployed template. No drift.
    """

    environment: str
    account: str
    findings: list[Finding] = field(default_factory=list)
    checked: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    undeployed: Mapping[str, int] = field(default_factory=dict)

    @property
    def level(self) -> Level:
        """Drift that was seen is drift, whatever else could not be looked at."""
        if self.findings:
            return Level.DRIFT
        return Level.UNKNOWN if self.missing else Level.NONE

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.findings:
            count = len(self.findings)
            parts = ", ".join(dict.fromkeys(finding.part for finding in self.findings))
            return f"Drift: {count} {'thing is' if count == 1 else 'things are'} not as deployed, in {parts}."
        if self.missing:
            return "No verdict: no drift was seen, but not everything could be looked at."
        return f"No drift: {self.checked} resources and the cluster are as they were deployed."

    @property
    def edits(self) -> str:
        """One line on what the file says and nobody has deployed yet; empty where there is nothing."""
        total = sum(self.undeployed.values())
        if not total:
            return ""
        stacks = ", ".join(f"{name} ({count})" for name, count in self.undeployed.items())
        return (
            f"Not deployed yet, and no drift: the file differs from the deployed templates in {total} "
            f"resource{'' if total == 1 else 's'}, {stacks}. What that would do: make diff"
        )
