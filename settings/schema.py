"""What is generated from the models: JSON Schemas for editors, and the tables of docs/environment-files.md,
docs/promotion.md and docs/people.md. They show types and texts, not the rules across fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from settings.model import Environment
from settings.model.base import Part
from settings.model.people import PeopleFile
from settings.pipeline.model import Pipeline

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "environments" / "environment.schema.json"
DOCUMENT = ROOT / "docs" / "environment-files.md"
GENERATED: tuple[tuple[type[Part], Path, Path], ...] = (
    (Environment, SCHEMA, DOCUMENT),
    (Pipeline, ROOT / "environments" / "pipelines" / "pipeline.schema.json", ROOT / "docs" / "promotion.md"),
    (PeopleFile, ROOT / "environments" / "people" / "people.schema.json", ROOT / "docs" / "people.md"),
)
"""The models, each with its schema and the page that holds its tables."""

BEGIN = "<!-- reference: written by `trainyard schema --write` -->"
END = "<!-- end of reference -->"
KINDS = {"string": "text", "integer": "number", "boolean": "true, false", "object": "mapping", "array": "list"}

Schema = dict[str, Any]


def schema_text(root: type[Part]) -> str:
    """The schema of environment, pipeline or people files as it is committed."""
    schema = root.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"Trainyard {root.__name__.lower()}"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def document_with_reference(document: str, root: type[Part]) -> str:
    """The document with a table for each part, in the order of the parts. ValueError where the marks are missing."""
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"The page needs the lines {BEGIN!r} and {END!r}, once each")
    schema = root.model_json_schema()
    tables = "\n".join(_tables(schema, schema["$defs"], "", set())).strip()
    before, rest = document.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}"


def _tables(part: Schema, definitions: dict[str, Schema], path: str, done: set[str]) -> Iterator[str]:
    yield from (f"### {f'`{path}`' if path else 'Top level'}", "", " ".join(str(part["description"]).split()), "")
    yield from ("| Key | Takes | Default | Meaning |", "|---|---|---|---|")
    nested: list[tuple[str, str]] = []
    for name, field in part["properties"].items():
        target, many = _target(field)
        # pydantic leaves the description of a required part to the part itself
        meaning = field.get("description") or " ".join(definitions[target]["description"].split())
        default = "required" if name in part.get("required", []) else _default(field, target)
        yield f"| `{name}` | {_takes(field, target, many)} | {default} | {meaning} |"
        if target:
            nested.append((f"{path}.{name}".strip(".") + ("[]" if many else ""), target))
    yield ""
    for inner, target in nested:
        if target not in done:
            done.add(target)
            yield from _tables(definitions[target], definitions, inner, done)


def _variants(field: Schema) -> list[Schema]:
    return [item for item in field.get("anyOf", [field]) if item.get("type") != "null"]


def _target(field: Schema) -> tuple[str, bool]:
    """The part that a field holds, and whether it is a list of them."""
    for item in _variants(field):
        for holder, many in ((item, False), (item.get("items", {}), True)):
            if "$ref" in holder:
                return str(holder["$ref"]).rsplit("/", 1)[-1], many
    return "", False


def _default(field: Schema, target: str) -> str:
    value = field.get("default")
    if value is None or (target and value == []):
        return "none"
    if target:
        return "see below"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`" if value != "" else "empty"


def _takes(field: Schema, target: str, many: bool) -> str:
    if target:
        return f"list of {target}" if many else target
    variants = _variants(field)
    values = [*map(_plain, variants)]
    if len(variants) < len(field.get("anyOf", variants)):
        values.append("null")
    return " or ".join(values)


def _plain(item: Schema) -> str:
    if "enum" in item:
        return ", ".join(f"`{value}`" for value in item["enum"])
    if "items" in item:
        return f"list of {_plain(item['items'])}"
    low, above, high = item.get("minimum"), item.get("exclusiveMinimum"), item.get("maximum")
    if low is not None:
        return f"{low} to {high}" if high is not None else f"{low} or more"
    if above is not None:
        return f"more than {above}"
    text = KINDS.get(item.get("type", ""), "value")
    return f"{text}, at most {item['maxLength']} characters" if "maxLength" in item else text
