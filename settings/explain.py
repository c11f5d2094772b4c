"""Turns pydantic's errors into faults, with what is allowed taken from the model."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from settings.faults import KeyPath
from settings.model.base import MEANINGS, Part
from settings.source import MAX_DIGITS, Source


def explain(error: ValidationError, source: Source, root: type[Part]) -> None:
    """Add a fault to `source` for each of pydantic's errors."""
    for detail in error.errors(include_url=False):
        if _only_counts_valid_items(detail):
            continue
        key = _in_file(detail["loc"], source)
        kind = detail["type"]
        if kind == "extra_forbidden":
            _unknown_key(key, source, root)
        elif kind == "missing":
            source.add(key, "nothing", *_required(key, root), line=source.line(key[:-1]))
        else:
            given = _given(source, key, detail)
            source.add(key, given, _allowed(detail, key, root), _advice(detail, given, _field_at(key, root)))


def nested_part(annotation: object) -> type[Part] | None:
    """The part that an annotation holds: of `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((part for argument in get_args(annotation) if (part := nested_part(argument))), None)


def _only_counts_valid_items(detail: ErrorDetails) -> bool:
    """Whether pydantic calls a list too short only because it does not count items that have faults."""
    given = detail["input"]
    least = detail.get("ctx", {}).get("min_length", 0)
    return detail["type"] == "too_short" and isinstance(given, list) and len(given) >= least


def _in_file(location: Sequence[str | int], source: Source) -> KeyPath:
    """The location without the parts that pydantic adds for unions and for the keys of a mapping."""
    key: list[str | int] = []
    data: object = source.data
    for index, part in enumerate(location):
        found, inner = _step(data, part)
        last = index == len(location) - 1
        if found:
            data = inner
        elif not (last and isinstance(data, dict) and isinstance(part, str) and part != "[key]"):
            continue
        key.append(part)
    return tuple(key)


def _step(data: object, part: str | int) -> tuple[bool, object]:
    if isinstance(data, list) and isinstance(part, int) and part < len(data):
        return True, data[part]
    if isinstance(data, dict) and part in data:
        return True, data[part]
    return False, None


def _part_at(key: KeyPath, root: type[Part]) -> type[Part] | None:
    part: type[Part] | None = root
    for name in key:
        if isinstance(name, int):
            continue
        info = part.model_fields.get(name) if part else None
        part = nested_part(info.annotation) if info else None
    return part


def _field_at(key: KeyPath, root: type[Part]) -> FieldInfo | None:
    names = [name for name in key if isinstance(name, str)]
    part = _part_at(tuple(names[:-1]), root)
    return part.model_fields.get(names[-1]) if part and names else None


def _unknown_key(key: KeyPath, source: Source, root: type[Part]) -> None:
    part = _part_at(key[:-1], root)
    known = list(part.model_fields) if part else []
    name = str(key[-1])
    if name == "<<":
        advice = "merge keys are not supported: write the values out, or use an alias for a whole value"
    else:
        advice = suggestion(name, known) or "remove the key"
    source.add(key, "an unknown key", ", ".join(known), advice)


def suggestion(given: str, known: Sequence[str]) -> str:
    """`did you mean x?`, or an empty text if nothing is similar."""
    near = difflib.get_close_matches(given.lower(), [str(name) for name in known], n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _required(key: KeyPath, root: type[Part]) -> tuple[str, str]:
    info = _field_at(key, root)
    allowed = (info.description or "").rstrip(".") if info else ""
    return f"a value: {allowed}" if allowed else "a value", f"add the key {key[-1]}"


def _given(source: Source, key: KeyPath, detail: ErrorDetails) -> str:
    value = detail["input"]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "an empty list" if not value else "a list"
    if value is None:
        return "nothing (null)"
    text = source.texts.get(key, str(value))
    shown = text if len(text) <= 80 else text[:77] + "..."
    return repr(shown) if isinstance(value, str) else shown


def _allowed(detail: ErrorDetails, key: KeyPath, root: type[Part]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    info = _field_at(key, root)
    if kind == "literal_error":
        return f"one of {', '.join(_choices(info))}"
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        return MEANINGS.get(pattern, f"a text of the form {pattern}")
    words = _KINDS.get(kind)
    return words.format(**context) if words else detail["msg"]


def _choices(info: FieldInfo | None) -> list[str]:
    return [str(value) for value in _literals(info.annotation)] if info else []


def _literals(annotation: object) -> list[object]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for argument in get_args(annotation) for value in _literals(argument)]


def _advice(detail: ErrorDetails, given: str, info: FieldInfo | None) -> str:
    kind = detail["type"]
    if kind == "string_type" and isinstance(detail["input"], int | float) and not isinstance(detail["input"], bool):
        return f'put it in quotes: "{given}"'
    if kind in {"int_type", "int_parsing"} and given.strip("'").isdigit():
        return "write the number without quotes" if len(given) <= MAX_DIGITS + 2 else "write a smaller number"
    if kind == "bool_type" and str(detail["input"]).lower() in {"yes", "no", "on", "off", "y", "n", "true", "false"}:
        return "write true or false, without quotes"
    if kind == "literal_error":
        return suggestion(str(detail["input"]), _choices(info))
    return ""


_KINDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length}",
    "too_long": "at most {max_length}",
}
