"""From a file to an `Environment`, or to all the faults of the file at once."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from settings.explain import explain
from settings.faults import Faults
from settings.model import Environment
from settings.rules import findings
from settings.salvage import salvage
from settings.source import Source, read


def load(path: Path) -> Environment:
    """Read, type and check one environment file.

    Raises `Faults` with every fault of the file: of its YAML, of its types and of the rules across fields.
    Where the types are wrong in one place, the rules still run on everything else. Nothing else is ever
    raised for what a file says.
    """
    source = read(Path(path))
    environment, sound = _typed(source)
    for finding in findings(environment, partial=not sound):
        source.add(finding.key, finding.given, finding.allowed, finding.advice)
    if source.faults:
        raise Faults(dict.fromkeys(source.faults))
    return environment


def _typed(source: Source) -> tuple[Environment, bool]:
    # As JSON, because strict mode takes a list for a tuple there, and still no "5" for a number.
    try:
        return Environment.model_validate_json(json.dumps(source.data), strict=True), not source.faults
    except ValidationError as error:
        explain(error, source, Environment)
        return salvage(Environment, source.data), False
