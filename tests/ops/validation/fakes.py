"""A cluster that answers as it is told, and a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ops.validation.head_node import Refused

Answer = dict[str, Any]
FACTS: Answer = {"jobs": "/shared/scripts/current/jobs", "programs": ["fio", "nccl-tests"], "images": []}
HEALTHY: Answer = {
    "host": "head",
    "verdict": "ok",
    "counts": {"ok": 9, "warning": 0, "failure": 0, "skipped": 1},
    "lines": [],
}


def ended(state: str = "COMPLETED", result: object = None, tail: str = "") -> Answer:
    """A job at its end."""
    return {
        "state": state, "reason": "None", "nodes": "gpu-dy-p5-[1-2]", "seconds": 5, "ended": True, "exit": "0:0",
        "tail": tail, "result": result,
    }  # fmt: skip


DOWN = ("gpu-dy-p5-1 down~: (Code:InsufficientInstanceCapacity)",)


def pending(reason: str = "Resources", state: str = "PENDING", down: tuple[str, ...] = DOWN, taken: int = 0) -> Answer:
    """A job that waits."""
    where: Answer = {"down": list(down), "taken": taken} if state == "PENDING" else {}
    return {"state": state, "reason": reason, "nodes": "", "seconds": 0, "ended": False, **where}


@dataclass
class Time:
    """Seconds that pass only where somebody sleeps."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


@dataclass
class FakeNode:
    """A head node. `looks` answers for a job by its check; `asked` is what came in."""

    looks: dict[str, Callable[[int], Answer]] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    scan: Answer = field(default_factory=lambda: dict(HEALTHY))
    asked: list[tuple[str, ...]] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def ask(self, *words: str) -> Answer:
        self.asked.append(words)
        if words[0] == "scan":
            return self.scan
        if words[0] == "submit":
            if words[1] in self.refuses:
                raise Refused(self.refuses[words[1]])
            number = str(len(self.jobs) + 1)
            self.jobs[number] = words[1]
            return {"job": number, "folder": f"/fsx/results/validation/{words[6]}/{words[1]}"}
        if words[0] == "look":
            self.seen[words[1]] = self.seen.get(words[1], 0) + 1
            return self.looks[self.jobs[words[1]]](self.seen[words[1]])
        return {"cancelled": words[1]} if words[0] == "cancel" else dict(FACTS)

    @property
    def cancelled(self) -> list[str]:
        return [words[1] for words in self.asked if words[0] == "cancel"]
