"""Values of a deployed template, with ids instead of references.

CloudFormation reports physical ids, outputs and exports. An attribute that does not follow from these is UNKNOWN, which
equals every value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ops.drift.deployed_stack import NESTED, DeployedStack, Resource
from ops.intrinsics import UNKNOWN, Resolver

_SUFFIXES = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}

# The attributes that follow from the physical id.
_ATTRIBUTES: dict[tuple[str, str], Callable[[DeployedStack, str], str]] = {
    ("AWS::EC2::SecurityGroup", "GroupId"): lambda _stack, key: key,
    ("AWS::FSx::Volume", "VolumeId"): lambda _stack, key: key,
    ("AWS::S3::Bucket", "Arn"): lambda stack, key: f"arn:{stack.partition}:s3:::{key}",
    ("AWS::Logs::LogGroup", "Arn"): lambda stack, key: _arn(stack, "logs", f"log-group:{key}:*"),
    ("AWS::Lambda::Function", "Arn"): lambda stack, key: _arn(stack, "lambda", f"function:{key}"),
}


def _arn(stack: DeployedStack, service: str, rest: str) -> str:
    return f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:{rest}"


class Values:
    """Resolves values of `stacks`, the environment's own, whose nested stacks are `inner` by ARN."""

    def __init__(self, stacks: Iterable[DeployedStack], inner: Mapping[str, DeployedStack] | None = None) -> None:
        self.exports = {name: value for stack in stacks for name, value in stack.exports.items()}
        self.inner = inner or {}

    def resolve(self, value: Any, stack: DeployedStack) -> Any:  # noqa: ANN401 - JSON
        """`value` of the template of `stack` without intrinsic functions."""
        return _InStack(self, stack).resolve(value)

    def properties(self, resource: Resource, stack: DeployedStack) -> dict[str, Any]:
        """The properties that the template gives a resource, resolved."""
        found: dict[str, Any] = self.resolve(dict(stack.properties(resource.logical_id)), stack)
        return found


class _InStack(Resolver):
    def __init__(self, values: Values, stack: DeployedStack) -> None:
        self._values = values
        self._stack = stack
        self._pseudo = {
            "AWS::AccountId": stack.account,
            "AWS::Partition": stack.partition,
            "AWS::Region": stack.region,
            "AWS::StackId": stack.id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": _SUFFIXES.get(stack.partition, UNKNOWN),
        }

    def reference(self, name: str) -> Any:  # noqa: ANN401 - JSON
        for known in (self._pseudo, self._stack.parameters):
            if name in known:
                return known[name]
        resource = self._stack.resources.get(name)
        return (resource and resource.physical_id) or UNKNOWN

    def attribute(self, logical_id: str, name: str) -> Any:  # noqa: ANN401 - JSON
        resource = self._stack.resources.get(logical_id)
        if resource is None or not resource.physical_id:
            return UNKNOWN
        if resource.kind == NESTED and name.startswith("Outputs."):
            inner = self._values.inner.get(resource.physical_id)
            return inner.outputs.get(name.removeprefix("Outputs."), UNKNOWN) if inner else UNKNOWN
        known = _ATTRIBUTES.get((resource.kind, name))
        return known(self._stack, resource.physical_id) if known else UNKNOWN

    def imported(self, export: str) -> Any:  # noqa: ANN401 - JSON
        return self._values.exports.get(export, UNKNOWN)
