"""What can be used of data that did not validate, so that the rules can still judge the rest.

The result is a model whose unsound fields are absent: touching one raises `NotSound`, which ends the one
rule that wanted it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from settings.model.base import Part

P = TypeVar("P", bound=Part)


def salvage(part: type[P], data: object) -> P:
    """A model of type `part` from `data`, without validation of the whole and without the fields that are
    not sound.
    """
    given = data if isinstance(data, dict) else None
    values: dict[str, Any] = {}
    absent: set[str] = set(part.model_fields) if given is None else set()
    for name, info in part.model_fields.items() if given is not None else ():
        if given is None or name not in given:
            if info.is_required():
                absent.add(name)
            continue
        try:
            values[name] = _value(part, name, given[name])
        except _UnsoundError:
            absent.add(name)
    result = part.model_construct(**values)
    for name in absent:
        result.__dict__.pop(name, None)
    return cast(P, result)


class _UnsoundError(Exception):
    pass


@cache
def _adapter(part: type[Part], name: str) -> TypeAdapter[Any]:
    info = part.model_fields[name]
    kind = cast(Any, Annotated[cast(Any, info.annotation), *info.metadata] if info.metadata else info.annotation)
    return TypeAdapter(kind)


def _value(part: type[Part], name: str, data: object) -> object:
    try:
        adapter = _adapter(part, name)
        return adapter.validate_json(json.dumps(data), strict=True)
    except ValidationError:
        nested, many = nested_part(part.model_fields[name].annotation)
        if nested is None:
            raise _UnsoundError from None
        if many and isinstance(data, list) and data:
            return tuple(salvage(nested, item) for item in data)
        if not many and isinstance(data, dict):
            return salvage(nested, data)
        raise _UnsoundError from None


def nested_part(annotation: object) -> tuple[type[Part] | None, bool]:
    """The part that an annotation holds, and whether it holds many: `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation, False
    many = get_origin(annotation) is tuple
    for argument in get_args(annotation):
        nested, _ = nested_part(argument)
        if nested is not None:
            return nested, many
    return None, False
