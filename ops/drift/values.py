"""Values of a deployed template, with ids instead of references, and their comparison with actual values.

CloudFormation reports physical ids, outputs and exports. An attribute that does not follow from these is UNKNOWN, which
equals every value.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ops.drift.deployed_stack import NESTED, DeployedStack, Resource
from ops.intrinsics import UNKNOWN, Resolver
from ops.review.structure import ABSENT, Difference, differences
from settings.regions import domain_suffix

NOT_KNOWN = "(a value that only AWS knows)"

_AWS_TAGS = "aws:"
"""Prefix of the tags that AWS sets."""
# The attributes that follow from the physical id.
_ATTRIBUTES = {
    ("AWS::EC2::SecurityGroup", "GroupId"): "{id}",
    ("AWS::FSx::Volume", "VolumeId"): "{id}",
    ("AWS::S3::Bucket", "Arn"): "arn:{partition}:s3:::{id}",
    ("AWS::Logs::LogGroup", "Arn"): "arn:{partition}:logs:{region}:{account}:log-group:{id}:*",
    ("AWS::Lambda::Function", "Arn"): "arn:{partition}:lambda:{region}:{account}:function:{id}",
}


class Values(Resolver):
    """Resolves values of `stacks`, the environment's own, whose nested stacks are among `inner`."""

    _stack: DeployedStack
    _known: Mapping[str, Any]
    _place: Mapping[str, str]

    def __init__(self, stacks: Iterable[DeployedStack], inner: Iterable[DeployedStack] = ()) -> None:
        self._exports = {name: value for stack in stacks for name, value in stack.exports.items()}
        self._inner = {stack.id: stack for stack in inner}

    def within(self, stack: DeployedStack) -> Values:
        """The same, for values of the template of `stack`."""
        scoped = copy.copy(self)
        _, partition, _, region, account, *_ = stack.id.split(":")
        scoped._stack = stack
        scoped._place = {"partition": partition, "region": region, "account": account}
        scoped._known = {
            "AWS::AccountId": account,
            "AWS::Partition": partition,
            "AWS::Region": region,
            "AWS::StackId": stack.id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": domain_suffix(region),
            **stack.parameters,
            **{name: resource.physical_id or UNKNOWN for name, resource in stack.resources.items()},
        }
        return scoped

    def properties(self, resource: Resource, stack: DeployedStack) -> dict[str, Any]:
        """The properties that the template gives a resource, resolved."""
        given = stack.template.get("Resources", {}).get(resource.logical_id, {}).get("Properties", {})
        found: dict[str, Any] = self.within(stack).resolve(given)
        return found

    def reference(self, name: str) -> Any:  # noqa: ANN401 - JSON
        return self._known.get(name, UNKNOWN)

    def attribute(self, logical_id: str, name: str) -> Any:  # noqa: ANN401 - JSON
        resource = self._stack.resources.get(logical_id)
        if resource is None or not resource.physical_id:
            return UNKNOWN
        if resource.kind == NESTED and resource.physical_id in self._inner:
            return self._inner[resource.physical_id].outputs.get(name.removeprefix("Outputs."), UNKNOWN)
        known = _ATTRIBUTES.get((resource.kind, name))
        return known.format(id=resource.physical_id, **self._place) if known else UNKNOWN

    def imported(self, export: str) -> Any:  # noqa: ANN401 - JSON
        return self._exports.get(export, UNKNOWN)


def compared(expected: Any, actual: Any) -> Iterator[Difference]:  # noqa: ANN401 - JSON
    """Every difference. UNKNOWN equals every value; "5" equals 5, and "true" equals true."""
    return differences(_plain(_masked(expected, actual)), _plain(actual))


def explicit(expected: Any, actual: Any) -> Iterator[Difference]:  # noqa: ANN401 - JSON
    """As `compared`, for the keys of `expected` only, at any depth: defaults of the service are not drift."""
    return compared(expected, _trimmed(expected, actual))


def _trimmed(expected: Any, actual: Any) -> Any:  # noqa: ANN401 - JSON
    """`actual` without the keys that `expected` does not have. Additional items of lists stay."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return {key: _trimmed(expected[key], value) for key, value in actual.items() if key in expected}
    if isinstance(expected, list) and isinstance(actual, list):
        return [_trimmed(*pair) for pair in zip_longest(expected[: len(actual)], actual)]
    return actual


def tags(expected: Mapping[str, Any], actual: Mapping[str, str]) -> Iterator[Difference]:
    """Tags by their keys, without those that AWS sets."""
    ours = {key: value for key, value in actual.items() if not key.startswith(_AWS_TAGS)}
    for found in compared(expected, ours):
        yield Difference(f"Tags[{found.path}]", found.old, found.new)


def _masked(expected: Any, actual: Any) -> Any:  # noqa: ANN401 - JSON
    """`expected` with the actual value wherever it is UNKNOWN and there is one."""
    if expected is UNKNOWN:
        return NOT_KNOWN if actual is ABSENT else actual
    if isinstance(expected, Mapping):
        there = actual if isinstance(actual, Mapping) else {}
        return {key: _masked(value, there.get(key, ABSENT)) for key, value in expected.items()}
    if isinstance(expected, list):
        items = actual[: len(expected)] if isinstance(actual, list) else []
        return [_masked(*pair) for pair in zip_longest(expected, items, fillvalue=ABSENT)]
    return expected


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Scalars as text: CloudFormation passes numbers and booleans either way."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if value is ABSENT or value is None else str(value)
