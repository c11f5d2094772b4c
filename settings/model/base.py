"""The base class of every part of an environment or pipeline file, and the texts that its keys take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

MEANINGS: dict[str, str] = {}
"""The words in which a fault describes each pattern."""

_TAG = "letters, digits, dots, _ and -, not starting with a dot or -"
STEP = "[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*"  # not "." or "..": rules compare paths as text


class Part(BaseModel):
    """A part of an environment file. Immutable once parsed; unknown keys are refused."""

    # Built at the first file, the root with all of its parts: commands start 0.15 s earlier.
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", str_strip_whitespace=True)


def text(pattern: str, meaning: str, most: int | None = None, least: int | None = None) -> StringConstraints:
    """A text of a pattern; `meaning` describes it in faults."""
    MEANINGS[f"^{pattern}$"] = meaning
    return StringConstraints(pattern=f"^{pattern}$", max_length=most, min_length=least)


def _name(most: int) -> StringConstraints:
    meaning = "two or more lower-case letters, digits and single hyphens, starting with a letter, ending with no hyphen"
    return text("[a-z](-?[a-z0-9])+", meaning, most)


def path(pattern: str, meaning: str, example: str) -> StringConstraints:
    """A path of up to 200 characters."""
    characters = "letters, digits, dots, _ and -"
    return text(pattern, f"{meaning} without a trailing slash: {characters}, for example {example}", 200)


def resource_id(what: str, prefix: str) -> StringConstraints:
    """An id that EC2 gave."""
    return text(f"{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", f"{what}, {prefix}- and 8 or 17 hexadecimal digits")


def arn(what: str, service: str, shown: str, name: str) -> StringConstraints:
    """An ARN that ends as `shown`, with a name of the pattern `name`."""
    pattern = rf"arn:aws[a-z-]*:{service}:[a-z0-9-]+:\d{{12}}:{shown.replace('<name>', name)}"
    return text(pattern, f"the ARN of {what}, arn:aws:{service}:<region>:<account>:{shown}")


# ParallelCluster allows 25 characters for queues, compute resources and login pools, 30 for file systems and 60 for
# clusters.
Name = Annotated[str, _name(40)]
PrefixName = Annotated[str, _name(25)]
QueueName = Annotated[str, _name(25)]
StorageName = Annotated[str, _name(30)]
ClusterName = Annotated[str, _name(60)]

Account = Annotated[str, text(r"\d{12}", "an account id, 12 digits in quotes")]
Region = Annotated[str, text(r"[a-z]{2}(-[a-z]+)+-\d", "a region, for example us-east-1")]
Email = Annotated[str, text(r"[^@\s]+@[^@\s]+\.[^@\s.]+", "an e-mail address", 250)]

Tag = Annotated[str, text("[A-Za-z0-9_][A-Za-z0-9._-]*", _TAG, 128)]
_DAY = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
Schedule = Annotated[
    str,
    text(
        rf"(off|nightly|({_DAY}(,{_DAY})* )?([01]\d|2[0-3]):[0-5]\d)",
        "off, nightly, or a time in UTC, with or without days, for example 02:30 or Sat,Sun 22:00",
    ),
]
MountPath = Annotated[str, path(f"/{STEP}(/{STEP})*", "an absolute path", "/fsx")]
LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365]
"""Retention periods that CloudWatch Logs and ParallelCluster both accept."""
