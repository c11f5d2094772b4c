"""Comparison of expected with actual values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT, Difference, differences

NOT_KNOWN = "(a value that only AWS knows)"
AWS_TAGS = "aws:"
"""Prefix of the tags that AWS sets."""


def compared(expected: Any, actual: Any) -> Iterator[Difference]:  # noqa: ANN401 - JSON
    """Every difference. UNKNOWN equals every value; "5" equals 5, and "true" equals true."""
    yield from differences(_plain(masked(expected, actual)), _plain(actual))


def explicit(
    expected: Mapping[str, Any], actual: Mapping[str, Any], *, ignored: Collection[str] = ()
) -> Iterator[Difference]:
    """As `compared`, for the keys of `expected` only, at any depth: defaults of the service are not drift.

    `ignored` are top-level keys that the service does not report.
    """
    for key, wanted in expected.items():
        if key not in ignored:
            yield from (
                Difference(f"{key}{_below(found.path)}", found.old, found.new)
                for found in compared({"": wanted}, {"": _trimmed(wanted, actual[key])} if key in actual else {})
            )


def _trimmed(expected: Any, actual: Any) -> Any:  # noqa: ANN401 - JSON
    """`actual` without the keys that `expected` does not have. Additional items of lists stay."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return {key: _trimmed(expected[key], value) for key, value in actual.items() if key in expected}
    if isinstance(expected, list) and isinstance(actual, list):
        some = [_trimmed(*pair) for pair in zip(expected, actual, strict=False)]
        return [*some, *actual[len(some) :]]
    return actual


def _below(path: str) -> str:
    return path if not path or path.startswith((".", "[")) else f".{path}"


def tags(expected: Mapping[str, Any], actual: Mapping[str, str]) -> Iterator[Difference]:
    """Tags by their keys, without those that AWS sets."""
    ours = {key: value for key, value in actual.items() if not key.startswith(AWS_TAGS)}
    for key in dict.fromkeys([*expected, *ours]):
        wanted, found = expected.get(key, ABSENT), ours.get(key, ABSENT)
        if wanted is not UNKNOWN and str(wanted) != str(found):
            yield Difference(f"Tags[{key}]", wanted, found)


def masked(expected: Any, actual: Any) -> Any:  # noqa: ANN401 - JSON
    """`expected` with the actual value wherever it is UNKNOWN and there is one."""
    if expected is UNKNOWN:
        return NOT_KNOWN if actual is ABSENT else actual
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return {key: masked(value, actual.get(key, ABSENT)) for key, value in expected.items()}
    if isinstance(expected, list) and isinstance(actual, list):
        others = [*actual, *[ABSENT] * len(expected)]
        return [masked(value, others[index]) for index, value in enumerate(expected)]
    if isinstance(expected, (Mapping, list)):
        return masked(expected, {} if isinstance(expected, Mapping) else [])
    return expected


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Scalars as text: CloudFormation passes numbers and booleans either way."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if value is ABSENT or value is None else str(value)
