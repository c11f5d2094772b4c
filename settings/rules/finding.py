"""What a rule returns, and a decorator for rules over the items of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from settings.faults import KeyPath
from settings.model import Environment

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A fault at a key; the loader adds file and line."""

    key: KeyPath
    given: str
    allowed: str
    advice: str = ""


Rule = Callable[[Environment], Iterator[Finding]]


def for_each(
    items: Callable[[Environment], Iterable[tuple[KeyPath, T]]],
) -> Callable[[Callable[[Environment, KeyPath, T], Iterator[Finding]]], Rule]:
    """Makes a rule of a function that checks one item."""

    def decorate(check: Callable[[Environment, KeyPath, T], Iterator[Finding]]) -> Rule:
        def rule(environment: Environment) -> Iterator[Finding]:
            for key, item in items(environment):
                yield from check(environment, key, item)

        return rule

    return decorate
