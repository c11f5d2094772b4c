"""What a report consists of, whatever its format."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Tone(StrEnum):
    """Colour in a terminal, as rich names it. By its name, the class in HTML and the kind of GitHub's alert."""

    NONE = "default"
    GOOD = "green"
    QUIET = "dim"
    WARNING = "yellow"
    BAD = "bold red"
    UNKNOWN = "bold magenta"


class Code(str):
    """A cell with a value or a path: fixed-width in Markdown and HTML."""

    __slots__ = ()


@dataclass(frozen=True)
class Row:
    """One line of a section. `output` is preformatted text that belongs to it, such as the end of a job's log."""

    cells: tuple[str, ...]
    tone: Tone = Tone.NONE
    output: str = ""


@dataclass(frozen=True)
class Section:
    """A table.

    Attributes:
        lead: in text, number of cells on the first line of a row; each other cell follows on a line of its own.
        note: a sentence before the table.
        folded: collapsed in Markdown and HTML, and a compact table in text.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    lead: int = 1
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Report:
    """A report in all its formats.

    Attributes:
        data: the rest of the JSON object, which holds everything.
        alarm: what a reader must see first, before the headline in text.
        sections: those without rows are left out.
        notes: paragraphs at the end.
        attachment: title and text of another program's output, cut in Markdown to what GitHub accepts.
    """

    title: str
    headline: str
    tone: Tone
    data: Mapping[str, Any]
    sections: tuple[Section, ...] = ()
    alarm: Section | None = None
    notes: tuple[str, ...] = ()
    attachment: tuple[str, str] = ("", "")
