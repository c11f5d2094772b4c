"""Systems Manager's documents for commands: kept with their content, so that what they say can be run."""

from __future__ import annotations

import re
from typing import Any

from ministack.core.responses import AccountRegionScopedDict
from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.service import ApiError

_CONTENT: Any = AccountRegionScopedDict()
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def install() -> None:
    """Provide AWS::SSM::Document."""
    provide("AWS::SSM::Document", _create, _delete, _update)


def _create(logical_id: str, properties: Properties, stack: str) -> Made:
    name = str(properties.get("Name") or provisioners._physical_name(stack, logical_id))
    _CONTENT[name] = properties["Content"]
    return name, {}


def _update(physical_id: str, _old: Properties, new: Properties) -> dict[str, Any]:
    _CONTENT[physical_id] = new["Content"]
    return {}


def _delete(physical_id: str, _properties: Properties) -> None:
    _CONTENT.pop(physical_id, None)


def parameters(name: str) -> dict[str, Any]:
    """The parameters that a document has, by name."""
    content = _CONTENT.get(name)
    if content is None:
        raise ApiError("InvalidDocument", f"Document with name {name} does not exist.")
    return dict(content.get("parameters") or {})


def script(name: str, given: dict[str, Any]) -> str:
    """The script of a document with the parameters of a command put in.

    Raises:
        ApiError: there is no such document, or a parameter is unknown, missing or not as the document allows.
    """
    known = parameters(name)
    if unknown := sorted(set(given) - set(known)):
        raise ApiError("InvalidParameters", f"Parameter {unknown[0]} is not defined in the document {name}.")
    values = {}
    for key, about in known.items():
        texts = given.get(key, [about["default"]] if "default" in about else None)
        if texts is None:
            raise ApiError("InvalidParameters", f"Parameter {key} is required.")
        text = texts if isinstance(texts, str) else "\n".join(texts)
        pattern, allowed = about.get("allowedPattern"), about.get("allowedValues")
        if (pattern and not re.search(pattern, text)) or (allowed and text not in allowed):
            raise ApiError("InvalidParameters", f"Parameter {key} has a value that is not allowed: {text}")
        values[key] = text
    lines = [line for step in _CONTENT[name]["mainSteps"] for line in step["inputs"]["runCommand"]]
    return _PLACE.sub(lambda match: values.get(match.group(1), match.group(0)), "\n".join(lines)) + "\n"
