"""The ParallelCluster configuration: types restored after CloudFormation, ownership tag added, rendered for the API.

CloudFormation hands every scalar of a custom resource's properties over as a string. `ConfigurationTypes` names
the paths that were something else.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from cluster_resource.identity import OWNER_TAG

TYPES = ("integer", "number", "boolean")


class ConfigurationError(ValueError):
    """A property that cannot be what it claims to be; the message names it, the value and what is allowed."""


def restore(configuration: Any, types: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """`configuration` with the scalars at the paths of `types` turned back from strings.

    Args:
        configuration: the nested structure as CloudFormation delivers it.
        types: `{"integer": [path, ...], "number": [...], "boolean": [...]}`; `.` between keys, `[]` for the items of a
            list, `.`, `[` and the backslash within a key escaped by a backslash.

    Raises:
        ConfigurationError: an unknown type, or a value that is not of its type.
    """
    kinds: dict[str, str] = {}
    for kind, paths in types.items():
        if kind not in TYPES:
            raise ConfigurationError(f"ConfigurationTypes has the type {kind!r}; allowed are {', '.join(TYPES)}.")
        if not isinstance(paths, list):
            raise ConfigurationError(f"ConfigurationTypes.{kind} must be a list of paths.")
        kinds.update((str(path), kind) for path in paths)
    return _restored(configuration, "", kinds)


def _restored(value: Any, path: str, kinds: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        dot = "." if path else ""
        return {key: _restored(item, f"{path}{dot}{_escaped(key)}", kinds) for key, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, f"{path}[]", kinds) for item in value]
    kind = kinds.get(path)
    if kind is None or not isinstance(value, str):
        return value
    try:
        return _PARSERS[kind](value)
    except ValueError:
        raise ConfigurationError(f"Configuration: {path} is {value!r}, which is no {kind}.") from None


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _integer(text: str) -> int:
    # JavaScript knows one kind of number: a whole one may arrive as "4.0".
    number = _number(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


_PARSERS: dict[str, Callable[[str], bool | int | float]] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
}


def render(configuration: Mapping[str, Any], owner: str) -> str:
    """The configuration as the API takes it (JSON is YAML), with the ownership tag among its Tags.

    The same input gives the same text: the API compares configurations to tell whether an update has anything to do.
    """
    tags = [tag for tag in configuration.get("Tags") or [] if tag.get("Key") != OWNER_TAG]
    owned = {**configuration, "Tags": [*tags, {"Key": OWNER_TAG, "Value": owner}]}
    # YAML 1.1 reads an escaped surrogate pair as two broken characters, so nothing is escaped that need not be.
    return json.dumps(owned, indent=2, ensure_ascii=False)
