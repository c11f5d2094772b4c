"""The keys of a cluster configuration, from the package's own schema:

    parallelcluster/.venv/bin/python -m parallelcluster.keys > settings/data/parallelcluster_keys.json

A mapping is a mapping of its keys; a list of mappings or of texts holds its one kind of item; a leaf names its type as
JSON Schema does: string, integer, boolean, number, or any; `|a|b` is a text of which the schema names all values.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from marshmallow import Schema, fields, validate
from pcluster.schemas.cluster_schema import ClusterSchema

TYPES = {fields.String: "string", fields.Integer: "integer", fields.Boolean: "boolean", fields.Float: "number"}


def keys_of(schema: Schema) -> dict[str, Any]:
    """The keys of a schema, by name."""
    return {str(field.data_key or name): _kind(field) for name, field in sorted(schema.fields.items())}


def _kind(field: Any) -> Any:  # noqa: ANN401 - marshmallow is not typed here
    if isinstance(field, fields.Nested):
        return [keys_of(field.schema)] if field.many else keys_of(field.schema)
    if isinstance(field, fields.List):
        return [_kind(field.inner)]
    choices = [
        str(choice) for check in field.validators if isinstance(check, validate.OneOf) for choice in check.choices
    ]
    if choices and isinstance(field, fields.String):
        return f"|{'|'.join(choices)}"
    return next((name for kind, name in TYPES.items() if isinstance(field, kind)), "any")


if __name__ == "__main__":
    json.dump(keys_of(ClusterSchema(cluster_name="keys")), sys.stdout, indent=1)
    sys.stdout.write("\n")
