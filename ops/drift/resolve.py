"""Values of a deployed template with ids in the place of references.

CloudFormation tells physical ids, outputs and exports. An attribute that it tells of nowhere, and that does not follow
from the id, stays UNKNOWN, and UNKNOWN equals everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from ops.drift.standing import NESTED, Resource, Standing

_SUB = re.compile(r"\$\{(!?)([^}]+)\}")


class _Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = _Unknown.UNKNOWN

_SUFFIXES = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}

# The attributes that follow from the physical id.
_ATTRIBUTES: dict[tuple[str, str], Callable[[Standing, str], str]] = {
    ("AWS::EC2::SecurityGroup", "GroupId"): lambda _stack, key: key,
    ("AWS::FSx::Volume", "VolumeId"): lambda _stack, key: key,
    ("AWS::S3::Bucket", "Arn"): lambda stack, key: f"arn:{stack.partition}:s3:::{key}",
    ("AWS::Logs::LogGroup", "Arn"): lambda stack, key: _arn(stack, "logs", f"log-group:{key}:*"),
    ("AWS::Lambda::Function", "Arn"): lambda stack, key: _arn(stack, "lambda", f"function:{key}"),
}


def _arn(stack: Standing, service: str, rest: str) -> str:
    return f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:{rest}"


class Values:
    """Resolves values of `stacks`, the environment's own, whose nested stacks are `inner` by ARN."""

    def __init__(self, stacks: Iterable[Standing], inner: Mapping[str, Standing] | None = None) -> None:
        self._exports = {name: value for stack in stacks for name, value in stack.exports.items()}
        self._inner = inner or {}

    def resolve(self, value: Any, stack: Standing) -> Any:  # noqa: ANN401 - JSON
        """`value` of the template of `stack` without intrinsic functions, and without keys of AWS::NoValue."""
        if isinstance(value, list):
            return [self.resolve(item, stack) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument, stack)
        return {key: self.resolve(item, stack) for key, item in value.items() if item != {"Ref": "AWS::NoValue"}}

    def properties(self, resource: Resource, stack: Standing) -> dict[str, Any]:
        """The properties that the template gives a resource, resolved."""
        found: dict[str, Any] = self.resolve(dict(stack.properties(resource.logical_id)), stack)
        return found

    def _call(self, function: str, argument: Any, stack: Standing) -> Any:  # noqa: ANN401, PLR0911 - JSON; one a function
        if function == "Ref":
            return self._reference(argument, stack)
        if function == "Fn::GetAtt":
            logical_id, _, attribute = (
                argument.partition(".") if isinstance(argument, str) else (argument[0], ".", str(argument[1]))
            )
            return self._attribute(logical_id, attribute, stack)
        if function == "Fn::ImportValue" and isinstance(argument, str):
            return self._exports.get(argument, UNKNOWN)
        if function == "Fn::Join":
            items = self.resolve(argument[1], stack)
            return _joined(str(argument[0]), items)
        if function == "Fn::Split":
            text = self.resolve(argument[1], stack)
            return text.split(argument[0]) if isinstance(text, str) else UNKNOWN
        if function == "Fn::Select":
            items = self.resolve(argument[1], stack)
            return items[int(argument[0])] if isinstance(items, list) and int(argument[0]) < len(items) else UNKNOWN
        if function == "Fn::Sub" and isinstance(argument, str):
            return self._substituted(argument, stack)
        return UNKNOWN

    def _substituted(self, text: str, stack: Standing) -> Any:  # noqa: ANN401 - JSON
        parts: list[Any] = []
        position = 0
        for found in _SUB.finditer(text):
            parts.append(text[position : found.start()])
            position = found.end()
            name, dot, attribute = found[2].partition(".")
            if found[1]:
                parts.append(f"${{{found[2]}}}")
            else:
                parts.append(self._attribute(name, attribute, stack) if dot else self._reference(name, stack))
        return _joined("", [*parts, text[position:]])

    def _reference(self, name: str, stack: Standing) -> Any:  # noqa: ANN401 - JSON
        pseudo = {
            "AWS::AccountId": stack.account,
            "AWS::Partition": stack.partition,
            "AWS::Region": stack.region,
            "AWS::StackId": stack.id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": _SUFFIXES.get(stack.partition, UNKNOWN),
        }
        if name in pseudo:
            return pseudo[name]
        if name in stack.parameters:
            return stack.parameters[name]
        resource = stack.resources.get(name)
        return resource.physical_id or UNKNOWN if resource else UNKNOWN

    def _attribute(self, logical_id: str, attribute: str, stack: Standing) -> Any:  # noqa: ANN401 - JSON
        resource = stack.resources.get(logical_id)
        if resource is None or not resource.physical_id:
            return UNKNOWN
        if resource.kind == NESTED and attribute.startswith("Outputs."):
            inner = self._inner.get(resource.physical_id)
            return inner.outputs.get(attribute.removeprefix("Outputs."), UNKNOWN) if inner else UNKNOWN
        known = _ATTRIBUTES.get((resource.kind, attribute))
        return known(stack, resource.physical_id) if known else UNKNOWN


def _joined(delimiter: str, items: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(items, list) or any(isinstance(item, (_Unknown, list, dict)) for item in items):
        return UNKNOWN
    return delimiter.join(str(item) for item in items)
