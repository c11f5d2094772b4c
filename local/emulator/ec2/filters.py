"""EC2's Filters and pages."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from local.emulator.service import ApiError


def matches(request: dict[str, Any], values: dict[str, Any]) -> bool:
    """Whether an item passes every filter; `values` maps each supported filter name to the item's value(s).

    Tag filters find their values under "tag:<key>"; a tag that the item lacks does not match. A filter that is
    not supported is an error, since ignoring it would answer too much.
    """
    for wanted in request.get("Filters", []):
        name = wanted["Name"]
        if name not in values and not name.startswith("tag:"):
            raise ApiError("InvalidParameterValue", f"The filter '{name}' is invalid")
        actual = values.get(name)
        texts = [_text(entry) for entry in (actual if isinstance(actual, list) else [actual]) if entry is not None]
        if not any(fnmatchcase(text, pattern) for text in texts for pattern in wanted.get("Values", [])):
            return False
    return True


def page(request: dict[str, Any], found: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """One page of the items, as NextToken and MaxResults ask."""
    start = int(request.get("NextToken") or 0)
    end = start + int(request.get("MaxResults") or len(found) or 1)
    return {key: found[start:end], **({"NextToken": str(end)} if end < len(found) else {})}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
