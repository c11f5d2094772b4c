"""Loads an environment file as an `Environment`, or reports its faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from settings.explain import explain
from settings.faults import Faults
from settings.model import Environment
from settings.model.base import Part
from settings.rules import findings
from settings.source import Source, read

P = TypeVar("P", bound=Part)


def load(path: Path) -> Environment:
    """Read, type and check one environment file.

    Raises:
        Faults: all faults of the file's YAML and types; if there are none, all faults of the rules across fields.
            No content of a file raises anything else.
    """
    source = read(Path(path))
    environment = typed(source, Environment)
    for finding in findings(environment):
        source.add(*finding)
    if source.faults:
        raise Faults(source.faults)
    return environment


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
        explain(error, source, root)
    if source.faults or model is None:
        raise Faults(source.faults)
    return model
