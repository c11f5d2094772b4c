"""The state of one execution, as it travels between the steps of the state machine."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

Operation = Literal["create", "update", "delete", "wait"]
Asked = Literal["nothing", "unknown", "accepted"]
Fleet = Literal["", "stopped", "started"]


@dataclass(frozen=True)
class Progress:
    """What this execution has asked of the API.

    Attributes:
        asked: whether the operation's own call was sent: `unknown` where no answer tells what became of it.
        unknown_calls: calls so far whose outcome nobody knows.
        refusals: consecutive calls that were refused before they reached the API.
        clearing: the remains of an earlier, failed creation of ours are being deleted, to make room.
        leftover: a cluster of ours that a failed rename left behind, still to be deleted.
        leftover_tries: how often that was tried in vain.
        left_behind: the same cluster, once it was given up.
        rollback: whether the event belongs to a rollback of its stack; None where CloudFormation does not say.
        fleet: what this execution asked of the compute fleet last.
        replacing: the cluster is deleted and created anew, since no update could bring it where it should be.
        api_checked: the API is of the version that is wanted, as far as it can tell.
        note: the last thing that kept the operation waiting, for the report if time runs out.
    """

    asked: Asked = "nothing"
    unknown_calls: int = 0
    refusals: int = 0
    clearing: bool = False
    leftover: str | None = None
    leftover_tries: int = 0
    left_behind: str = ""
    rollback: bool | None = None
    fleet: Fleet = ""
    replacing: bool = False
    api_checked: bool = False
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
    """One execution between two steps.

    Attributes:
        deadline: when the operation fails for taking too long, in seconds since the epoch.
        answer_by: when CloudFormation must have an answer, in seconds since the epoch; before the deadline only where
            another resource waits on.
        execution: ARN of the execution.
        handed_over: CloudFormation has its answer for the time being; the verdict is for the resources that wait on.
    """

    event: dict[str, Any]
    started: str
    deadline: int
    operation: Operation
    physical_id: str
    progress: Progress = Progress()
    verdict: Verdict | None = None
    answer_by: int = 0
    execution: str = ""
    handed_over: bool = False

    def to_json(self, now: float = 0) -> dict[str, Any]:
        """The work as the state machine carries it; `state` is what it branches on."""
        return {**asdict(self), "state": self._state(now)}

    def _state(self, now: float) -> str:
        if self.verdict is not None:
            return "done"
        goes_on = self.operation != "delete" and self.answer_by < self.deadline
        return "early" if goes_on and not self.handed_over and self.answer_by <= now else "waiting"

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
            answer_by=item["answer_by"],
            execution=item["execution"],
            handed_over=item["handed_over"],
        )


def epoch_seconds(started: str) -> int:
    """Seconds since the epoch of an execution's start time (ISO 8601, UTC)."""
    return int(datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp())
