"""From a file to an `Environment`, or to all the faults of the file at once."""

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
from settings.salvage import salvage
from settings.source import Source, read

P = TypeVar("P", bound=Part)


def load(path: Path) -> Environment:
    """Read, type and check one environment file.

    Raises `Faults` with every fault of the file: of its YAML, of its types and of the rules across fields.
    Where the types are wrong in one place, the rules still run on everything else. Nothing else is ever
    raised for what a file says.
    """
    source = read(Path(path))
    environment, sound = typed(source, Environment)
    for finding in findings(environment, partial=not sound):
        source.add(finding.key, finding.given, finding.allowed, finding.advice)
    if source.faults:
        raise Faults(dict.fromkeys(source.faults))
    return environment


def typed(source: Source, root: type[P]) -> tuple[P, bool]:
    """The model of type `root` that a file's data give, and whether all of it is sound.

    What does not fit goes into the source's faults; the model is then what `salvage` leaves.
    """
    # As JSON, because strict mode takes a list for a tuple there, and still no "5" for a number.
    try:
        return root.model_validate_json(json.dumps(source.data), strict=True), not source.faults
    except ValidationError as error:
        explain(error, source, root)
        return salvage(root, source.data), False
