"""What a check of one configuration found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    """A word of a validator. `level` is INFO, WARNING or ERROR, `type` the validator's class name."""

    level: str
    type: str
    message: str


@dataclass
class Report:
    """The findings.

    Attributes:
        schema: errors of the schema by key, as ParallelCluster nests them; with any, nothing else was tried.
        messages: what the validators said; with an ERROR, no template was built.
        resources: how many resources of which type the cluster's templates have, nested stacks included.
        template: the cluster's own template.
    """

    schema: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the schema is content and no validator has an error."""
        return not self.schema and all(message.level != "ERROR" for message in self.messages)

    def summary(self) -> dict[str, Any]:
        """All but the template, as JSON."""
        return {
            "ok": self.ok,
            "schema": self.schema,
            "messages": [asdict(message) for message in self.messages],
            "resources": self.resources,
        }
