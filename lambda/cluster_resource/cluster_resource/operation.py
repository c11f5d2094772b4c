"""The state of one execution, as it travels between the steps of the state machine."""

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from cluster_resource.request import Request

Kind = Literal["create", "update", "delete", "wait"]
Asked = Literal["nothing", "unknown", "accepted"]
Fleet = Literal["", "stopped", "started"]
Status = Literal["SUCCESS", "FAILED"]


@dataclass(frozen=True)
class Progress:
    """What this execution has asked of the API.

    Attributes:
        asked: whether the operation's own call was sent; `unknown` if its outcome is not known.
        unknown_calls: number of calls with an unknown outcome.
        refusals: consecutive calls that did not reach the API.
        clearing: ARN of the stack of a cluster of this resource that is being deleted to make room for a new one.
        creating: a create was sent.
        leftover: a cluster of this resource that a failed rename left, to be deleted.
        leftover_tries: failed attempts to delete it.
        left_behind: the same cluster, after the last attempt.
        rollback: whether the stack is rolling back; None if CloudFormation does not answer.
        clean_up: it is the Delete of a cluster that an update renamed or removed, or CloudFormation does not answer.
        fleet: the last request for the compute fleet.
        api_checked: the API has the wanted version, as far as it shows.
        looks: number of looks so far, with the present one; they are at least 20 s apart.
        note: what the operation waited for last, for the failure report at the time limit.
    """

    asked: Asked = "nothing"
    unknown_calls: int = 0
    refusals: int = 0
    clearing: str = ""
    creating: bool = False
    leftover: str | None = None
    leftover_tries: int = 0
    left_behind: str = ""
    rollback: bool | None = None
    clean_up: bool = False
    fleet: Fleet = ""
    api_checked: bool = False
    looks: int = 0
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer to CloudFormation."""

    status: Status
    physical_id: str
    reason: str
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One execution between two steps.

    Attributes:
        event: of CloudFormation.
        started: when the execution started (ISO 8601, UTC).
        deadline: when the operation fails, in seconds since the epoch.
        answer_by: when CloudFormation must have an answer, in seconds since the epoch; earlier than the deadline only
            if another resource waits for the end.
        execution: ARN of the execution.
        handed_over: CloudFormation has an early answer; the verdict is for the resources that wait.
    """

    event: dict[str, Any] = field(repr=False)
    started: str
    kind: Kind
    physical_id: str
    deadline: int = 0
    answer_by: int = 0
    execution: str = ""
    progress: Progress = Progress()
    verdict: Verdict | None = None
    handed_over: bool = False

    @cached_property
    def request(self) -> Request:
        return Request.of(self.event)

    def decided(self, verdict: Verdict) -> "Operation":
        return replace(self, verdict=verdict)

    def to_json(self, now: float = 0) -> dict[str, Any]:
        """The operation as the state machine carries it; the state machine branches on `state`."""
        waits = self.kind != "delete" and not self.handed_over and self.answer_by < self.deadline
        state = "early" if waits and self.answer_by <= now else "waiting"
        return {**asdict(self), "state": "done" if self.verdict else state}

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> "Operation":
        given = {key: value for key, value in item.items() if key != "state"}
        verdict = Verdict(**given["verdict"]) if given["verdict"] else None
        return cls(**{**given, "progress": Progress(**given["progress"]), "verdict": verdict})


def epoch_seconds(started: str) -> int:
    """Seconds since the epoch of an execution's start time (ISO 8601, UTC)."""
    return int(datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp())
