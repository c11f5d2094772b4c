r"""Which scalars of a configuration are not strings.

CloudFormation passes every scalar of a custom resource's properties as a string: `true`, `10`, `0.5`. So the
properties also hold the paths of the configuration's integers, booleans and other numbers, and the custom resource
converts them back. The format:

    {"boolean": ["HeadNode.Imds.Secured", ...],
     "integer": ["Scheduling.SlurmQueues[].ComputeResources[].MaxCount", ...],
     "number": [...]}

- A path names the keys from the root, with `.` between them.
- `[]` after a key, or after another `[]`, means all items of a list.
- Within a key, each `.`, `[` and backslash is escaped by a backslash.
- A path is in one list only, each list is sorted, and a type without paths is left out.

A path covers all items of its lists, so their scalars must have one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def types_of(configuration: Mapping[str, object]) -> dict[str, list[str]]:
    """The paths of `configuration`'s integers, booleans and numbers, as the module describes.

    Raises:
        ValueError: a path with values of two types; a null; an empty key.
        TypeError: a value that is not a string, integer, boolean, number, mapping or list.
    """
    types: dict[str, str] = {}
    for path, kind in _scalars(configuration, ""):
        if types.setdefault(path, kind) != kind:
            raise ValueError(
                f"Configuration: {path} is {types[path]} in one item and {kind} in another; make them one type."
            )
    return {
        kind: sorted(path for path, its_kind in types.items() if its_kind == kind)
        for kind in sorted(set(types.values()) - {"string"})
    }


def _scalars(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not key:
                raise ValueError(f"Configuration: {path or 'the root'} has an empty key; name it.")
            yield from _scalars(item, f"{path}.{_escaped(key)}" if path else _escaped(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item, f"{path}[]")
    else:
        yield path, _kind(value, path)


def _kind(value: object, path: str) -> str:
    if value is None:
        raise ValueError(f"Configuration: {path} is null, which CloudFormation does not pass on; leave the key out.")
    if isinstance(value, bool):
        return "boolean"
    for python_type, kind in ((int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, python_type):
            return kind
    raise TypeError(
        f"Configuration: {path} is of type {type(value).__name__}; allowed are strings, integers, booleans, numbers, "
        "mappings and lists."
    )


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")
