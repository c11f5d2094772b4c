"""Which request a fault hits. No network, no clock."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

from local.steering.model import FOREVER, Fault, Target


@dataclass
class _Rule:
    fault: Fault
    passed: int = 0
    hit: int = 0

    @property
    def used_up(self) -> bool:
        return self.fault.times != FOREVER and self.hit >= self.fault.times

    def concerns(self, target: Target, method: str, path: str) -> bool:
        fault = self.fault
        return bool(
            fault.target == target
            and not self.used_up
            and re.fullmatch(fault.method, method)
            and re.search(fault.path, path)
        )


class Rules:
    """The faults that were asked for, in that order; safe to use from several threads."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._rules.append(_Rule(fault))

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def pending(self) -> list[Fault]:
        """Faults that can still hit."""
        with self._lock:
            return [rule.fault for rule in self._rules if not rule.used_up]

    def take(self, target: Target, method: str, path: str) -> Fault | None:
        """The fault that hits this request, counted as used; the first one asked for wins.

        A request that a fault lets pass (`after`) counts for that fault, and may be hit by a later one.
        """
        with self._lock:
            for rule in self._rules:
                if not rule.concerns(target, method, path):
                    continue
                if rule.passed < rule.fault.after:
                    rule.passed += 1
                    continue
                rule.hit += 1
                return rule.fault
        return None
