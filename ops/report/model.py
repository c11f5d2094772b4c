"""What a report consists of, whatever its format."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal


class Tone(StrEnum):
    """A rich style, for terminals. Its name is the class in HTML and selects GitHub's kind of alert."""

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
class Chart:
    """A chart of the HTML report, drawn by templates/charts.js.

    Attributes:
        kind: sizes (lines over message size), times (lines over days), recent (lines over minutes), bars, or matrix (of
            pairs).
        unit: of the values.
        points: rows of x and a value per series. x is bytes, seconds since 1970, or the place in `labels`; a row of a
            matrix is two places in `labels` and a value. None: no value.
        series: their names. The first one is measured and the others are limits; over time all are measured.
        labels: names of the bars, or of the rows and columns of a matrix.
        usual: of a matrix, the value of a good pair.
        simulated: the values come from stand-ins.
    """

    kind: Literal["sizes", "times", "recent", "bars", "matrix"]
    title: str
    unit: str
    points: tuple[tuple[float | None, ...], ...]
    series: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    usual: float = 0
    simulated: bool = False


@dataclass(frozen=True)
class Figure:
    """One value at the top of the HTML report, with a description that a browser shows on hovering."""

    name: str
    value: str
    description: str
    tone: Tone = Tone.NONE


@dataclass(frozen=True)
class Report:
    """A report in all its formats.

    Attributes:
        data: the rest of the JSON object, which holds everything.
        alarm: what a reader must see first, before the headline in text.
        sections: those without rows are left out.
        charts: only in HTML.
        figures: only in HTML.
        refresh: seconds after which a browser loads the HTML again, 0 for never.
        notes: paragraphs at the end.
        attachment: title and text of another program's output, cut in Markdown to what GitHub accepts.
    """

    title: str
    headline: str
    tone: Tone
    data: Mapping[str, Any]
    sections: tuple[Section, ...] = ()
    alarm: Section | None = None
    charts: tuple[Chart, ...] = ()
    figures: tuple[Figure, ...] = ()
    refresh: int = 0
    notes: tuple[str, ...] = ()
    attachment: tuple[str, str] = ("", "")
