"""A head node with prepared answers, and a clock that does not wait; the head node's own programs as modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ops.validation.head_node import HeadNode, Refused

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "cluster_assets" / "validation"))

import request_handler
import validation_results as results

__all__ = ["request_handler", "results"]
Answer = dict[str, Any]
NODES = ("gpu-dy-p5-1", "gpu-dy-p5-2")
FACTS: Answer = {"programs": ["fio", "nccl-tests"], "images": []}
HEALTHY: Answer = {"host": "head", "verdict": "ok", "counts": {"ok": 9, "warning": 0, "failure": 0}, "lines": []}
RUNNING: Answer = {"state": "RUNNING", "reason": "None", "nodes": NODES[0], "ended": False}
DOWN = ("gpu-dy-p5-1 down~: (Code:InsufficientInstanceCapacity)",)


def ended(state: str = "COMPLETED", result: object = None, tail: str = "") -> Answer:
    """A job at its end."""
    return {"state": state, "nodes": "gpu-dy-p5-[1-2]", "ended": True, "exit": "0:0", "tail": tail, "result": result}


def pending(reason: str = "Resources", state: str = "PENDING", down: tuple[str, ...] = DOWN, taken: int = 0) -> Answer:
    """A job that waits."""
    where: Answer = {"down": list(down), "taken": taken} if state == "PENDING" else {}
    return {"state": state, "reason": reason, "ended": False, **where}


@dataclass
class Time:
    """A clock that only `sleep` advances."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


@dataclass
class FakeNode(HeadNode):
    """A head node. `looks` answers for a job by its check, with one answer or by the number of the look."""

    looks: dict[str, Answer | Callable[[int], Answer]] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    drains: dict[str, str] = field(default_factory=dict)
    out: tuple[str, ...] = ()

    def ask(self, *words: str) -> Answer:
        self.asked.append(words)
        request, *rest = words
        if request == "submit":
            if rest[0] in self.refuses:
                raise Refused(self.refuses[rest[0]])
            return {"job": str(len(self.submitted)), "folder": "/fsx"}
        if request == "look":
            look = self.looks[self.submitted[int(rest[0]) - 1]]
            return look(self.asked.count(words)) if callable(look) else look
        if request == "drain" and "drain" in self.refuses:
            raise Refused(self.refuses["drain"])
        return {"scan": HEALTHY, "drain": {"drain": self.drains, "out": self.out}}.get(request, {})

    @property
    def submitted(self) -> list[str]:
        return [words[1] for words in self.asked if words[0] == "submit"]

    @property
    def cancelled(self) -> list[str]:
        return [words[1] for words in self.asked if words[0] == "cancel"]
