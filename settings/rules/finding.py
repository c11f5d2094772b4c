"""What a rule hands back, and the marks that make a function a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.base import NotSoundError

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A fault by its key; the loader adds file and line."""

    key: KeyPath
    given: str
    allowed: str
    advice: str = ""


Check = Callable[[Environment], Iterator[Finding]]
Rule = Callable[[Environment, bool], Iterator[Finding]]
"""Takes an environment, and whether parts of it are unsound and to be passed over."""


def rule(check: Check) -> Rule:
    """A rule over the whole environment."""

    def run(environment: Environment, partial: bool) -> Iterator[Finding]:
        try:
            yield from check(environment)
        except NotSoundError:
            if not partial:
                raise

    return run


def rule_for_each(
    items: Callable[[Environment], Iterable[tuple[KeyPath, T]]],
) -> Callable[[Callable[[Environment, KeyPath, T], Iterator[Finding]]], Rule]:
    """A rule over each item by itself: an unsound one does not keep the others from being judged."""

    def decorate(check: Callable[[Environment, KeyPath, T], Iterator[Finding]]) -> Rule:
        def run(environment: Environment, partial: bool) -> Iterator[Finding]:
            try:
                found = list(items(environment))
            except NotSoundError:
                if not partial:
                    raise
                return
            for key, item in found:
                try:
                    yield from check(environment, key, item)
                except NotSoundError:
                    if not partial:
                        raise

        return run

    return decorate
