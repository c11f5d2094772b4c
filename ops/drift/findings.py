"""The findings of one run, and the verdict."""

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
    """One difference from what was deployed.

    Attributes:
        part: `cluster`, `assets`, or the name of a stack.
        path: the property within it; empty for the whole subject.
        expected: what was deployed; ABSENT where nothing was.
        actual: what exists now; ABSENT where nothing does.
        advice: what to do about it; empty where docs/drift.md says it.
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
        checked: number of resources that were compared, by CloudFormation or here.
        unchecked: number of resources that were not compared, by type.
        missing: checks that failed, each with its reason; without drift elsewhere they leave no verdict.
        undeployed: number of resources in which the file differs from the deployed template, by stack; not drift.
        simulated: the account is that of the emulated AWS.
    """

    environment: str
    account: str
    findings: list[Finding] = field(default_factory=list)
    checked: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    undeployed: Mapping[str, int] = field(default_factory=dict)
    simulated: bool = False

    @property
    def level(self) -> Level:
        """A finding is drift, even if other checks failed."""
        if self.findings:
            return Level.DRIFT
        return Level.UNKNOWN if self.missing else Level.NONE

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.findings:
            count = len(self.findings)
            parts = ", ".join(dict.fromkeys(finding.part for finding in self.findings))
            return f"Drift: {count} difference{'' if count == 1 else 's'} from what was deployed, in {parts}."
        if self.missing:
            return "No verdict: no drift was found, but some checks failed."
        return f"No drift: {self.checked} resources and the cluster are as they were deployed."

    @property
    def edits(self) -> str:
        """One line on edits of the file that are not deployed yet; empty where there are none."""
        total = sum(self.undeployed.values())
        if not total:
            return ""
        stacks = ", ".join(f"{name} ({count})" for name, count in self.undeployed.items())
        return (
            f"Not deployed yet (this is not drift): the file differs from the deployed templates in {total} "
            f"resource{'' if total == 1 else 's'}, {stacks}. To see the effect: trainyard diff"
        )
