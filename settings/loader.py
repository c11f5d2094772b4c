"""Loads an environment file as an `Environment`, or reports its faults. Types also pipeline files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from settings.faults import Fault, Faults, KeyPath, suggestion
from settings.model import Environment
from settings.model.base import MEANINGS, Part
from settings.model.cluster import with_switch
from settings.model.people import PeopleFile
from settings.rules import findings, people
from settings.source import MAX_DIGITS, Source, read, text_of

P = TypeVar("P", bound=Part)


def load(path: Path, *, scripts: Path | None = None, people_text: str | None = None) -> Environment:
    """Read, type and check one environment file with its people file, and its scripts.

    Args:
        scripts: folder of scripts and people file. Default: the environment file's.
        people_text: the content of the people file, if it is not the file's own.

    Raises:
        Faults: all faults of the file's YAML and types; if there are none, all faults of the rules across fields.
            No content of a file raises anything else.
    """
    source = read(Path(path))
    environment = typed(source, Environment)
    for hook in environment.cluster.hooks:
        hook.read(scripts or source.file.parent)
    people_source = _read_people(source, environment, scripts or source.file.parent, people_text)
    for finding in findings(environment):
        source.add(*finding)
    for finding in people.file_findings(environment):
        people_source.add(*finding)
    if faults := [*source.faults, *people_source.faults]:
        raise Faults(faults)
    return environment


def _read_people(source: Source, environment: Environment, folder: Path, text: str | None) -> Source:
    """Fill `environment.people` from its file; raises Faults about the file itself."""
    name = environment.people.file
    if name is None:
        return source
    file = folder / name
    if text is None and not file.is_file():
        allowed = "a file that can be read, relative to the environment file's folder"
        source.add(("people", "file"), f"{name}, which cannot be read", allowed, "create it with the line: users: []")
        return source
    content = text_of(file) if text is None else text
    if private := people.PRIVATE_KEY.search(content):
        line = content.count("\n", 0, private.start()) + 1
        advice = "use the .pub file. The private key was disclosed: make a new key pair"
        raise Faults([Fault(file, line, "users", "a private key", "SSH public keys", advice)])
    found = read(file, what="a people file", example="environments/people/staging.yaml", text=content)
    environment.people.fill(typed(found, PeopleFile))
    return found


def typed(source: Source, root: type[P]) -> P:
    """The content of a file as a model of type `root`.

    Raises:
        Faults: all faults of the file's YAML and types.
    """
    model = None
    try:
        # Validated as JSON: strict mode then accepts a list for a tuple, but still not "5" for a number.
        model = root.model_validate_json(json.dumps(source.data), strict=True)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _explain(detail, source, root)
    if source.faults or model is None:
        raise Faults(source.faults)
    return model


def _explain(detail: ErrorDetails, source: Source, root: type[Part]) -> None:
    """Add a fault for one of pydantic's errors, with what is allowed taken from the model."""
    given, kind = detail["input"], detail["type"]
    if kind == "too_short" and isinstance(given, list) and len(given) >= detail["ctx"]["min_length"]:
        return  # pydantic does not count the items that have faults
    key = _in_file(detail["loc"], source)
    info = _at(key, root)[1]
    if kind == "model_type" and info and info.json_schema_extra is with_switch:
        kind = detail["type"] = "switch_type"
    if kind == "literal_error" and detail["loc"][-1] != key[-1]:  # the short form of a part
        info = _at((*key, detail["loc"][-1]), root)[1] or info
    if kind == "extra_forbidden":
        part = _at(key[:-1], root)[0]
        known = list(part.model_fields) if part else []
        advice = suggestion(str(key[-1]), known) or "remove the key"
        if key[-1] == "<<":
            advice = "merge keys are not supported: write the values out, or use an alias for a whole value"
        source.add(key, "an unknown key", ", ".join(known), advice)
    elif kind == "missing":
        meaning = (info.description or "").rstrip(".") if info else ""
        allowed = f"a value: {meaning}" if meaning else "a value"
        source.add(key, "nothing", allowed, f"add the key {key[-1]}", line=source.line(key[:-1]))
    else:
        hidden = info is not None and not info.repr
        shown = "a value that may be secret" if hidden else _shown(given, source.texts.get(key, str(given)))
        source.add(key, shown, _allowed(detail, info), _advice(detail, shown, info))


def _in_file(location: Sequence[str | int], source: Source) -> KeyPath:
    """The location without the parts that pydantic adds for unions and for the keys of a mapping."""
    key: list[str | int] = []
    data: object = source.data
    for index, part in enumerate(location):
        inner = dict(enumerate(data)) if isinstance(data, list) else data if isinstance(data, dict) else {}
        if part in inner:
            data = inner[part]
        elif index < len(location) - 1 or not isinstance(data, dict) or part == "[key]":
            continue
        key.append(part)
    return tuple(key)


def _at(key: KeyPath, root: type[Part]) -> tuple[type[Part] | None, FieldInfo | None]:
    """The part at a key, and the field that holds it."""
    part: type[Part] | None = root
    info: FieldInfo | None = None
    for name in key:
        if isinstance(name, str):
            info = part.model_fields.get(name) if part else None
            part = nested_part(info.annotation) if info else None
    return part, info


def nested_part(annotation: object) -> type[Part] | None:
    """The part that an annotation holds: of `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((part for argument in get_args(annotation) if (part := nested_part(argument))), None)


def _choices(annotation: object) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for argument in get_args(annotation) for value in _choices(argument)]


def _shown(value: object, text: str) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of length {len(value)}" if value else "an empty list"
    if value is None:
        return "nothing (null)"
    shown = text if len(text) <= 80 else text[:77] + "..."
    return repr(shown) if isinstance(value, str) else shown


def _allowed(detail: ErrorDetails, info: FieldInfo | None) -> str:
    context = detail.get("ctx", {})
    if info and detail["type"] == "literal_error":
        return f"one of {', '.join(_choices(info.annotation))}"
    if pattern := context.get("pattern"):
        return MEANINGS.get(pattern, f"a text of the form {pattern}")
    words = _KINDS.get(detail["type"])
    return words.format(**context) if words else detail["msg"]


def _advice(detail: ErrorDetails, given: str, info: FieldInfo | None) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'put it in quotes: "{given}"'
    if kind in {"int_type", "int_parsing"} and given.strip("'").isdigit():
        return "write the number without quotes" if len(given) <= MAX_DIGITS + 2 else "write a smaller number"
    words = {"yes", "no", "on", "off", "y", "n", "true", "false"}
    if kind in {"bool_type", "switch_type"} and str(value).lower() in words:
        return "write true or false, without quotes"
    return suggestion(str(value), _choices(info.annotation)) if info and kind == "literal_error" else ""


_KINDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "float_type": "a number",
    "switch_type": "true, false or a mapping",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
}
