"""What a walk tells while it goes, and the table at its end."""

from __future__ import annotations

import os

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from local.pipeline.definition import Action, Pipeline
from local.pipeline.record import Entry, Record

WIDTH_IN_A_LOG = 160
COLOURS = {"succeeded": "green", "failed": "red", "waiting": "yellow", "in progress": "cyan", "not started": "dim"}
_NOTE_WIDTH = 200


def console() -> Console:
    """The console of the walker; wide where nobody watches, so that reasons stay in one line."""
    made = Console(highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_IN_A_LOG
    return made


def line(action: Action, entry: Entry) -> str:
    """One line of progress; actions that begin are told too where they take time."""
    colour = COLOURS[entry.status]
    took = f" {entry.seconds:.0f} s" if entry.status in ("succeeded", "failed") else ""
    note = f"  {escape(_short(entry.note))}" if entry.note else ""
    return f"  [{colour}]{entry.status:<11}[/{colour}] {escape(action.key)}{took}{note}"


def table(pipeline: Pipeline, record: Record) -> Table:
    """Stage, action, outcome, seconds, and what there is to say."""
    revision = record.revision[:10]
    made = Table(title=f"{pipeline.name}  {revision}  {record.execution}", title_justify="left")
    for heading in ("stage", "action", "outcome", "seconds", ""):
        made.add_column(heading, justify="right" if heading == "seconds" else "left", overflow="fold")
    for stage in pipeline.stages:
        for index, action in enumerate(stage.actions):
            entry = record.of(action.key)
            colour = COLOURS[entry.status]
            made.add_row(
                escape(stage.name) if not index else "",
                escape(action.name),
                f"[{colour}]{entry.status}[/{colour}]",
                f"{entry.seconds:.0f}" if entry.status in ("succeeded", "failed") else "",
                escape(_short(entry.note)),
                end_section=index == len(stage.actions) - 1,
            )
    return made


def _short(note: str) -> str:
    text = " ".join(note.split())
    return text if len(text) <= _NOTE_WIDTH else f"{text[: _NOTE_WIDTH - 3]}..."
