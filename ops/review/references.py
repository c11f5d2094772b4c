"""References between resources, written so that two sides can be compared.

`Ref`, `Fn::GetAtt`, `Fn::ImportValue` and `Fn::Join` become text that names the resource: `${network.Subnet}`. A
resource that CloudFormation makes anew gets another id, so what refers to it gets another text: the mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from ops.review.stacks import Stacks

Resource = tuple[str, str]
"""Construct id of the stack, and logical id."""

MARK = " (new)"
_PSEUDO = "AWS::"
_SUB = re.compile(r"\$\{(?!!)([^}]+)\}")


class References:
    """The references of one side, whose resources in `renewed` are made anew."""

    def __init__(self, stacks: Stacks, renewed: Collection[Resource] = ()) -> None:
        self._stacks = stacks
        self._renewed = renewed
        self._exports = {
            name: (key, output["Value"])
            for key, stack in stacks.items()
            for output in stack.template.get("Outputs", {}).values()
            if isinstance(name := output.get("Export", {}).get("Name"), str)
        }

    def resolve(self, value: Any, stack: str) -> Any:  # noqa: ANN401 - JSON
        """`value` of the template of `stack` without intrinsic functions."""
        if isinstance(value, list):
            return [self.resolve(item, stack) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument, stack)
        return {key: self.resolve(item, stack) for key, item in value.items()}

    def _call(self, function: str, argument: Any, stack: str) -> str:  # noqa: ANN401 - JSON
        if function == "Ref":
            return self._name(argument, "", stack)
        if function == "Fn::GetAtt":
            logical_id, _, attribute = (
                argument.partition(".") if isinstance(argument, str) else (argument[0], ".", str(argument[1]))
            )
            return self._name(logical_id, f".{attribute}", stack)
        if function == "Fn::ImportValue" and isinstance(argument, str):
            exporter, exported = self._exports.get(argument, (stack, None))
            return f"${{{argument}}}" if exported is None else str(self.resolve(exported, exporter))
        if function == "Fn::Join":
            delimiter, items = argument
            resolved = self.resolve(items, stack)
            if isinstance(resolved, list):
                return str(delimiter).join(str(item) for item in resolved)
        if function == "Fn::Sub" and isinstance(argument, str):
            return _SUB.sub(lambda found: self._substitute(found[1], stack), argument)
        return json.dumps({function: self.resolve(argument, stack)}, sort_keys=True)

    def _substitute(self, name: str, stack: str) -> str:
        logical_id, dot, attribute = name.partition(".")
        return self._name(logical_id, f"{dot}{attribute}", stack)

    def _name(self, logical_id: str, attribute: str, stack: str) -> str:
        if logical_id.startswith(_PSEUDO) or logical_id not in self._stacks[stack].resources:
            return f"${{{logical_id}{attribute}}}"
        mark = MARK if (stack, logical_id) in self._renewed else ""
        return f"${{{stack}.{logical_id}{attribute}{mark}}}"
