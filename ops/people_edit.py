"""Edits the text of a people file: items are inserted and deleted in place, everything else stays byte for byte.

Not ruamel.yaml: it keeps a comment with the item before it, so that a removed user would take the next section's
comment along.
"""

from __future__ import annotations

import textwrap
from typing import Any

import yaml


def insert(text: str, part: str, item: dict[str, Any]) -> str:
    """The text with an item at the end of the list `part`, which is made if it is missing."""
    key, node = _find(text, part)
    if key is None:
        return f"{text.rstrip()}\n\n{part}:\n{_block([item], 2)}"
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        at = _line_end(text, _end(node.value[-1]))
        return text[:at] + "\n" + _block([item], node.start_mark.column).rstrip("\n") + text[at:]
    items = [*(yaml.safe_load(text)[part] or []), item]
    return text[: key.end_mark.index] + ":\n" + _block(items, 2).rstrip("\n") + text[node.end_mark.index :]


def delete(text: str, part: str, name: str) -> str:
    """The text without the item of a name in the list `part`."""
    key, node = _find(text, part)
    names = [item.get("name") for item in yaml.safe_load(text)[part]]
    return _without(text, key, node, names.index(name))


def leave_groups(text: str, name: str) -> str:
    """The text without a user among the members of groups."""
    for index, group in enumerate(yaml.safe_load(text).get("groups") or []):
        if name in (group.get("members") or ()):
            _, groups = _find(text, "groups")
            key, members = _value(groups.value[index], "members")
            text = _without(text, key, members, group["members"].index(name))
    return text


def _without(text: str, key: Any, node: Any, index: int) -> str:  # noqa: ANN401 - PyYAML is untyped
    items = node.value
    if node.flow_style:
        kept = [text[item.start_mark.index : item.end_mark.index] for item in items if item is not items[index]]
        return text[: node.start_mark.index] + f"[{', '.join(kept)}]" + text[node.end_mark.index :]
    start = text.rfind("\n", 0, items[index].start_mark.index) + 1
    text = text[:start] + text[_line_end(text, _end(items[index])) + 1 :]
    if len(items) == 1:
        text = text[: key.end_mark.index] + ": []" + text[key.end_mark.index + 1 :]
    return text


def _find(text: str, part: str) -> tuple[Any, Any]:
    root = yaml.compose(text, yaml.SafeLoader)
    return _value(root, part)


def _value(mapping: Any, name: str) -> tuple[Any, Any]:  # noqa: ANN401 - PyYAML is untyped
    return next(((key, value) for key, value in mapping.value if key.value == name), (None, None))


def _end(node: Any) -> int:  # noqa: ANN401 - PyYAML is untyped
    """Where a node's own text ends; PyYAML's mark of a block is behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _line_end(text: str, index: int) -> int:
    # PyYAML's mark of a block scalar (| or >) is at the start of what follows it.
    end = text.find("\n", len(text[:index].rstrip()))
    return len(text) if end < 0 else end


def _block(items: list[dict[str, Any]], indent: int) -> str:
    return textwrap.indent(yaml.safe_dump(items, sort_keys=False, width=4096, allow_unicode=True), " " * indent)
