"""The state of one execution, as it travels between the steps of the state machine."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

Operation = Literal["create", "update", "delete"]
Asked = Literal["nothing", "unknown", "accepted"]


@dataclass(frozen=True)
class Progress:
    """What this execution has asked of the API.

    Attributes:
        asked: whether the operation's own call was sent: `unknown` where no answer tells what became of it.
        unknown_calls: calls so far whose outcome nobody knows.
        refusals: consecutive calls that were refused before they reached the API.
        clearing: the remains of an earlier, failed creation of ours are being deleted, to make room.
        leftover: a cluster of ours that a failed rename left behind, still to be deleted.
        note: the last thing that kept the operation waiting, for the report if time runs out.
    """

    asked: Asked = "nothing"
    unknown_calls: int = 0
    refusals: int = 0
    clearing: bool = False
    leftover: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """What CloudFormation will be told."""

    status: Literal["SUCCESS", "FAILED"]
    physical_id: str
    reason: str
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """One execution between two steps. `deadline` is in seconds since the epoch."""

    event: dict[str, Any]
    started: str
    deadline: int
    operation: Operation
    physical_id: str
    progress: Progress = Progress()
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": "waiting" if self.verdict is None else "done"}

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> "Work":
        verdict = item.get("verdict")
        return cls(
            event=item["event"],
            started=item["started"],
            deadline=item["deadline"],
            operation=item["operation"],
            physical_id=item["physical_id"],
            progress=Progress(**item["progress"]),
            verdict=Verdict(**verdict) if verdict else None,
        )


def epoch_seconds(started: str) -> int:
    """Seconds since the epoch of an execution's start time (ISO 8601, UTC)."""
    return int(datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp())
