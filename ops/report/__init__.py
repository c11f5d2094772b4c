"""Reports of the commands: one model, written as text, Markdown, JSON or HTML."""

from ops.report.model import Chart, Code, Figure, Report, Row, Section, Tone
from ops.report.rendering import FORMATS, html, json_text, markdown, text, write

__all__ = [
    "FORMATS",
    "Chart",
    "Code",
    "Figure",
    "Report",
    "Row",
    "Section",
    "Tone",
    "html",
    "json_text",
    "markdown",
    "text",
    "write",
]
