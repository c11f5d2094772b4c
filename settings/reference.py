"""The reference tables of docs/environment-files.md and docs/promotion.md, from the models' own descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from settings.model import Environment
from settings.model.base import Part

DOCUMENT = Path(__file__).parent.parent / "docs" / "environment-files.md"
PIPELINE_DOCUMENT = Path(__file__).parent.parent / "docs" / "promotion.md"
BEGIN = "<!-- reference: written by `trainyard schema --write` -->"
END = "<!-- end of reference -->"

Schema = dict[str, Any]


def reference_text(root: type[Part] = Environment) -> str:
    """A table for each part of a file, in the order in which the parts appear."""
    schema = root.model_json_schema()
    return "\n".join(_tables(schema, schema.get("$defs", {}), "", set())).strip() + "\n"


def document_with_reference(document: str, root: type[Part] = Environment) -> str:
    """The document with its tables as they must be now. ValueError where the marks are missing."""
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"The page needs the lines {BEGIN!r} and {END!r}, once each")
    before, rest = document.split(BEGIN)
    return f"{before}{BEGIN}\n\n{reference_text(root)}\n{END}{rest.split(END)[1]}"


def _tables(part: Schema, definitions: dict[str, Schema], path: str, done: set[str]) -> Iterator[str]:
    yield f"### {f'`{path}`' if path else 'Top level'}"
    yield ""
    yield " ".join(str(part.get("description", "")).split())
    yield ""
    yield "| Key | Takes | Default | Meaning |"
    yield "|---|---|---|---|"
    nested: list[tuple[str, str]] = []
    for name, field in part["properties"].items():
        target, many = _target(field)
        # pydantic leaves the description of a required part to the part itself
        meaning = field.get("description") or " ".join(definitions.get(target, {}).get("description", "").split())
        default = _default(name, field, part, target)
        yield f"| `{name}` | {_takes(field, target, many)} | {default} | {meaning} |"
        if target:
            nested.append((f"{path}.{name}".strip(".") + ("[]" if many else ""), target))
    yield ""
    for inner, target in nested:
        if target in done:
            continue
        done.add(target)
        yield from _tables(definitions[target], definitions, inner, done)


def _variants(field: Schema) -> list[Schema]:
    return [item for item in field.get("anyOf", [field]) if item.get("type") != "null"]


def _target(field: Schema) -> tuple[str, bool]:
    for item in _variants(field):
        if "$ref" in item:
            return str(item["$ref"]).rsplit("/", 1)[-1], False
        if "$ref" in item.get("items", {}):
            return str(item["items"]["$ref"]).rsplit("/", 1)[-1], True
    return "", False


def _default(name: str, field: Schema, part: Schema, target: str) -> str:
    if name in part.get("required", []):
        return "required"
    value = field.get("default")
    if value is None:
        return "none"
    if target:
        return "none" if value == [] else "see below"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`" if value != "" else "empty"


def _takes(field: Schema, target: str, many: bool) -> str:
    if target:
        return f"list of {target}" if many else target
    words = [_plain(item) for item in _variants(field)]
    if "anyOf" in field and len(words) < len(field["anyOf"]):
        words.append("null")
    return " or ".join(words)


def _plain(item: Schema) -> str:
    if "enum" in item:
        return ", ".join(f"`{value}`" for value in item["enum"])
    kind = {"string": "text", "integer": "number", "boolean": "true, false", "object": "mapping", "array": "list"}
    text = kind.get(cast(str, item.get("type", "")), "value")
    if item.get("type") == "array":
        return f"list of {_plain(item['items'])}"
    low, above, high = item.get("minimum"), item.get("exclusiveMinimum"), item.get("maximum")
    if low is not None:
        return f"{low} to {high}" if high is not None else f"{low} or more"
    if above is not None:
        return f"more than {above}"
    return f"{text}, at most {item['maxLength']} characters" if "maxLength" in item else text
