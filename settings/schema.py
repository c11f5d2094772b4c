"""JSON Schema of environment and pipeline files, for editors and other tools: types and texts, not the rules across
fields.
"""

from __future__ import annotations

import json
from pathlib import Path

from settings.model import Environment
from settings.model.base import Part
from settings.pipeline.model import Pipeline

SCHEMA = Path(__file__).parent.parent / "environments" / "environment.schema.json"
PIPELINE_SCHEMA = Path(__file__).parent.parent / "environments" / "pipelines" / "pipeline.schema.json"


def schema_text() -> str:
    """The schema of environment files as it is committed."""
    return _text(Environment, "Trainyard environment")


def pipeline_schema_text() -> str:
    """The schema of pipeline files as it is committed."""
    return _text(Pipeline, "Trainyard pipeline")


def _text(root: type[Part], title: str) -> str:
    schema = root.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
