"""JSON Schema of environment files, for editors and other tools: types and texts, not the rules across fields."""

from __future__ import annotations

import json
from pathlib import Path

from settings.model import Environment

SCHEMA = Path(__file__).parent.parent / "environments" / "environment.schema.json"


def schema_text() -> str:
    """The schema as it is committed."""
    schema = Environment.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Trainyard environment"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
