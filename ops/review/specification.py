"""Which properties CloudFormation cannot change in place.

Read out of what is installed: the resource specification of the CDK CLI, which `cdk diff` goes by, and the schemas of
the CloudFormation registry that cfn-lint carries. Where one of the two calls for a replacement, there is one: the
registry knows nothing of the nested properties of FSx file systems, and the CLI's is older for others.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cfnlint.schema import ResourceNotFoundError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
DATABASE = ROOT / "node_modules" / "aws-cdk" / "db.json.gz"

CUSTOM = "Custom::"
_DEPTH = 8

# The CLI's specification marks neither, and both hold what users have put there.
_ALSO_STATEFUL = frozenset({"AWS::FSx::Volume", "AWS::ECR::Repository"})

Path_ = tuple[str, ...]


class Specification:
    """Answers by resource type; a type that is in neither source has no such property."""

    def __init__(self, region: str) -> None:
        self._region = region

    def replacing(self, kind: str) -> Mapping[Path_, bool]:
        """Paths of properties whose change makes the resource anew: always (True), or in some cases (False)."""
        return _replacing(kind, self._region)

    def is_stateful(self, kind: str) -> bool:
        """Whether resources of this type hold data."""
        return kind in _ALSO_STATEFUL or bool(_resources().get(kind, {}).get("isStateful"))


@functools.cache
def _replacing(kind: str, region: str) -> dict[Path_, bool]:
    found = dict(_of_properties(_resources().get(kind, {}).get("properties", {}), (), _DEPTH))
    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, kind).schema
    except ResourceNotFoundError:
        return found
    for key, always in (("conditionalCreateOnlyProperties", False), ("createOnlyProperties", True)):
        for pointer in schema.get(key) or ():
            path = tuple(part for part in pointer.removeprefix("/properties/").split("/") if part != "properties")
            found[path] = always or found.get(path, False)
    return found


def _of_properties(properties: Mapping[str, Any], above: Path_, depth: int) -> Iterator[tuple[Path_, bool]]:
    for name, definition in properties.items():
        path = (*above, name)
        replaces = definition.get("causesReplacement")
        if replaces in ("yes", "maybe"):
            yield path, replaces == "yes"
        elif depth:
            yield from _of_properties(_nested(definition.get("type", {})), path, depth - 1)


def _nested(kind: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind.get("type") == "ref":
        nested: Mapping[str, Any] = _database()["types"].get(kind["reference"]["$ref"], {}).get("properties", {})
        return nested
    return {}


def _resources() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = _database()["resources"]
    return found


@functools.cache
def _database() -> dict[str, dict[str, Any]]:
    try:
        with gzip.open(DATABASE) as file:
            tables = json.load(file)["schema"]
        return {
            "resources": {item["cloudFormationType"]: item for item in tables["resource"]["entities"]},
            "types": {item["$id"]: item for item in tables["typeDefinition"]["entities"]},
        }
    except (OSError, ValueError, KeyError) as error:
        raise Problem(
            f"The resource specification of the CDK CLI cannot be read ({type(error).__name__}: {error}). Install the "
            "project's tools with: make setup"
        ) from error
