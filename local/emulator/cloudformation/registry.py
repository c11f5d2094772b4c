"""The CloudFormation registry's schemas, as cfn-lint 1.58 ships them (cfnlint/data/schemas)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import regex
from jsonschema import Draft7Validator, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend

from local.emulator.service import installed

_extend: Any = extend  # untyped in its stubs

# Found, not imported: cfn-lint's own code takes a second to load and is not needed.
_SCHEMAS = installed("cfnlint") / "data" / "schemas"


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    # The registry's patterns are Java's, with \\p{L} and the like, which the standard library's re refuses.
    if isinstance(value, str) and not regex.search(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: Any = _extend(Draft7Validator, {"pattern": _pattern})


class Refused(ValueError):
    """Properties that the registry's schema does not allow."""


@cache
def types() -> dict[str, str]:
    """Every resource type of the registry, with the hash that names its schema."""
    # us-east-1 has nearly every type. Which region lacks which type is not emulated.
    found: dict[str, str] = json.loads((_SCHEMAS / "providers" / "us-east-1.json").read_text())
    return found


@cache
def schema(resource_type: str) -> dict[str, Any]:
    """The registry schema of a type."""
    found: dict[str, Any] = json.loads((_SCHEMAS / "resources" / f"{types()[resource_type]}.json").read_text())
    return found


def _paths(resource_type: str, key: str) -> list[tuple[str, ...]]:
    pointers = schema(resource_type).get(key, [])
    return sorted(tuple(pointer.removeprefix("/properties/").split("/")) for pointer in pointers)


def create_only(resource_type: str) -> list[tuple[str, ...]]:
    """Paths of properties whose change replaces the resource ("*" is every list item)."""
    paths = _paths(resource_type, "createOnlyProperties")
    return [tuple(part for part in path if part != "properties") for path in paths]


def read_only(resource_type: str) -> tuple[str, ...]:
    """What GetAtt can answer."""
    return tuple(".".join(path) for path in _paths(resource_type, "readOnlyProperties"))


def identifier(resource_type: str) -> tuple[str, ...]:
    """The properties that make the physical id."""
    return tuple(path[0] for path in _paths(resource_type, "primaryIdentifier"))


def check(resource_type: str, properties: dict[str, Any]) -> None:
    """Raise Refused, naming every fault, unless the properties fit the schema.

    CloudFormation takes "5" for 5 and "true" for true, so values are first converted to the schema's types.
    """
    found = schema(resource_type)
    try:
        validator = _Validator({**found, "$schema": "http://json-schema.org/draft-07/schema#", **_more(resource_type)})
        faults = sorted(validator.iter_errors(_coerced(properties, found, found)), key=lambda fault: list(fault.path))
    except SchemaError as error:
        raise Refused(f"{resource_type}: the registry's schema is invalid: {error.message}") from error
    if faults:
        said = "; ".join(f"#/{'/'.join(map(str, fault.path))}: {fault.message}" for fault in faults)
        raise Refused(f"Properties validation failed for resource type {resource_type}: {said}")


@cache
def _more(resource_type: str) -> dict[str, Any]:
    """What cfn-lint adds from AWS's documentation to a schema that has no limits (AWS::FSx::FileSystem)."""
    folder = _SCHEMAS / "extensions" / "aws_fsx_filesystem"
    if resource_type != "AWS::FSx::FileSystem":
        return {}
    added = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return {"allOf": [*schema(resource_type).get("allOf", []), *added]}


def _coerced(value: Any, shape: dict[str, Any], root: dict[str, Any]) -> Any:
    if "$ref" in shape:
        target: Any = root
        for part in shape["$ref"].removeprefix("#/").split("/"):
            target = target.get(part, {})
        return _coerced(value, target, root)
    if isinstance(value, dict):
        members = shape.get("properties", {})
        return {key: _coerced(entry, members.get(key, {}), root) for key, entry in value.items()}
    if isinstance(value, list):
        items = shape.get("items", {})
        return [_coerced(entry, items if isinstance(items, dict) else {}, root) for entry in value]
    return _scalar(value, shape.get("type"))


def _scalar(value: Any, wanted: Any) -> Any:
    if wanted == "string" and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, str):
        return value
    if wanted == "boolean":
        return {"true": True, "false": False}.get(value.lower(), value)
    try:
        return {"integer": int, "number": float}.get(wanted, str)(value)
    except (TypeError, ValueError):
        return value
