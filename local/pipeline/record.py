"""How far a walk is, kept in a file, so that another call can go on with it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Status = Literal["not started", "in progress", "succeeded", "failed", "waiting"]
FILE = "walk.json"


@dataclass
class Entry:
    """An action of the execution. `seconds` is wall-clock time, `note` a reason, a summary or what is waited for."""

    status: Status = "not started"
    seconds: float = 0
    note: str = ""
    external: str = ""
    skipped: list[str] = field(default_factory=list)
    token: str = ""


@dataclass
class Record:
    """One walk of one pipeline.

    Attributes:
        name: the pipeline's file, as the user named it.
        pipeline: name of the deployed pipeline.
        execution: id of the execution.
        revision: the commit that is walked.
        restarts: how many executions a change of the pipeline itself ended before this one.
        entries: by STAGE/ACTION.
        variables: by namespace.
    """

    name: str
    revision: str
    pipeline: str = ""
    execution: str = ""
    version: int = 0
    restarts: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, key: str) -> Entry:
        """The entry of an action."""
        return self.entries.setdefault(key, Entry())

    def write(self, state: Path) -> None:
        """Write it, whole or not at all."""
        state.mkdir(parents=True, exist_ok=True)
        temporary = state / f"{FILE}.new"
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(state / FILE)


def read(state: Path) -> Record | None:
    """The walk that a state folder tells of, or none."""
    try:
        found = json.loads((state / FILE).read_text())
    except FileNotFoundError:
        return None
    entries = {key: Entry(**entry) for key, entry in found.pop("entries").items()}
    return Record(**found, entries=entries)
