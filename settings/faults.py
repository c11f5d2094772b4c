"""What is wrong with an environment or pipeline file, in a form that a reader can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

KeyPath = tuple[str | int, ...]
"""The path of a value in a file: keys and list indices, from the top."""


def key_text(key: KeyPath) -> str:
    """The path as messages show it, for example `storage.lustre[0].capacity_gib`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(file)"


def suggestion(given: str, known: Sequence[str]) -> str:
    """`did you mean x?`, or an empty text if nothing is similar."""
    near = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


@dataclass(frozen=True)
class Fault:
    """One fault of one file.

    Attributes:
        line: counts from 1; 0 for a fault of the file as a whole.
        given: what the file says.
        allowed: what it may say.
        advice: what to do next; empty if `allowed` already says it.
    """

    file: Path
    line: int
    key: str
    given: str
    allowed: str
    advice: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        text = f"{place}: {self.key}\n    given:   {self.given}\n    allowed: {self.allowed}"
        return f"{text}\n    do:      {self.advice}" if self.advice else text


class Faults(Exception):
    """All faults that were found, sorted by file and line."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(
            sorted(dict.fromkeys(faults), key=lambda fault: (str(fault.file), fault.line, fault.key, fault.given))
        )
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)
