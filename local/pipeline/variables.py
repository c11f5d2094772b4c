"""`#{Namespace.NAME}` in the configuration of actions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from local.pipeline.problem import ActionFailed

_REFERENCE = re.compile(r"#\{(?P<namespace>[A-Za-z0-9@_-]+)\.(?P<name>[A-Za-z0-9@_-]+)\}")

Namespaces = Mapping[str, Mapping[str, str]]


def resolve(text: str, known: Namespaces) -> str:
    """`text` with every reference replaced by its value.

    Raises:
        ActionFailed: no action before has set the variable, as CodePipeline would say it.
    """

    def value(found: re.Match[str]) -> str:
        namespace, name = found["namespace"], found["name"]
        if name not in known.get(namespace, {}):
            there = ", ".join(sorted(known.get(namespace, {}))) or "nothing"
            raise ActionFailed(f"the variable {found[0]} is not set: {namespace} has {there}")
        return known[namespace][name]

    return _REFERENCE.sub(value, text)


def resolve_all(configuration: Mapping[str, str], known: Namespaces) -> dict[str, str]:
    """A whole configuration, resolved."""
    return {key: resolve(text, known) for key, text in configuration.items()}
