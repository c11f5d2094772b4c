"""References between resources, written so that two sides can be compared.

A reference becomes text that names the resource: `${network.Subnet}`. Where CloudFormation replaces a resource, its id
changes: the text then has a mark, so that everything that refers to the resource differs too, in other stacks as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from ops.intrinsics import Resolver
from ops.review.stacks import Stacks

Resource = tuple[str, str]
"""Construct id of the stack, and logical id."""

MARK = " (new)"


class References:
    """The references of one side, in which the resources `replaced` get new ids."""

    def __init__(self, stacks: Stacks, replaced: Collection[Resource] = ()) -> None:
        self.stacks = stacks
        self.replaced = replaced
        self.exports = {
            name: (key, output["Value"])
            for key, stack in stacks.items()
            for output in stack.template.get("Outputs", {}).values()
            if isinstance(name := output.get("Export", {}).get("Name"), str)
        }

    def resolve(self, value: Any, stack: str) -> Any:  # noqa: ANN401 - JSON
        """`value` of the template of `stack` without intrinsic functions."""
        return _InStack(self, stack).resolve(value)


class _InStack(Resolver):
    symbolic = True

    def __init__(self, references: References, stack: str) -> None:
        self._references = references
        self._stack = stack

    def reference(self, name: str) -> str:
        return self._name(name, "")

    def attribute(self, logical_id: str, name: str) -> str:
        return self._name(logical_id, f".{name}")

    def imported(self, export: str) -> str:
        if export not in self._references.exports:
            return f"${{{export}}}"
        stack, value = self._references.exports[export]
        return str(self._references.resolve(value, stack))

    def unresolved(self, function: str, argument: Any) -> str:  # noqa: ANN401 - JSON
        return json.dumps({function: self.resolve(argument)}, sort_keys=True)

    def _name(self, logical_id: str, attribute: str) -> str:
        if logical_id not in self._references.stacks[self._stack].resources:
            return f"${{{logical_id}{attribute}}}"
        mark = MARK if (self._stack, logical_id) in self._references.replaced else ""
        return f"${{{self._stack}.{logical_id}{attribute}{mark}}}"
