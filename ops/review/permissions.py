"""Changes that may broaden permissions and that the CDK does not count.

The CDK compares the policy statements and the security group rules of a template. It does not look into the cluster's
configuration, from which ParallelCluster makes roles and security groups, nor into the parameters of a nested stack.
Each change of these is reported, whether it grants more or less: only the account knows what the policies contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ops.review.cluster import Cluster, Key, Outcome
from ops.review.resources import Effect, ResourceChange
from ops.review.structure import Difference, shown
from ops.review.verdict import Verdict, label

SECTIONS = frozenset({"Iam", "AllowedIps", "AdditionalSecurityGroups", "SecurityGroups", "Imds"})
"""Keys of a cluster configuration that set what its nodes may do, and who may connect to them."""

_NESTED_STACK = "AWS::CloudFormation::Stack"
_PROVIDER = "AWS::IAM::OIDCProvider"
_PREFIX = "AWS::IAM::"
_BOUNDARY = "PermissionsBoundary"
_OPENING = {
    "AWS::S3::Bucket": ("PublicAccessBlockConfiguration", "AccessControl"),
    "AWS::FSx::FileSystem": ("NfsExports",),
    "AWS::FSx::Volume": ("NfsExports",),
}
_ITEM = re.compile(r"\[[^]]*\]")


def not_counted_by_cdk(verdict: Verdict) -> tuple[str, ...]:
    """One line for each change; empty where there is none."""
    return (*of_cluster(verdict.cluster), *(line for change in verdict.resources for line in _of_resource(change)))


def of_cluster(cluster: Cluster) -> tuple[str, ...]:
    """Changes of `SECTIONS`, also those of a queue or a pool of login nodes that is added."""
    if cluster.outcome is Outcome.CREATED:
        return (f"cluster {cluster.name}: created, with the roles and security groups of its configuration",)
    if cluster.outcome is Outcome.RESUMED:
        return (f"cluster {cluster.name}: gets the file's configuration, with its roles and security groups",)
    return tuple(line for key in cluster.keys for line in _of_key(cluster.name, key))


def _of_key(cluster: str, key: Key) -> Iterator[str]:
    if SECTIONS & set(_segments(key.path)):
        yield f"cluster {cluster}: {key.path}: {shown(key.old)} -> {shown(key.new)}"
        return
    before = dict(_sections(key.old, key.path))
    for path, value in _sections(key.new, key.path):
        if before.get(path) != value:
            yield f"cluster {cluster}: {path}: {shown(before.get(path))} -> {shown(value)}"


def _sections(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The `SECTIONS` within a value, by their path."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in SECTIONS:
                yield f"{path}.{name}", item
            else:
                yield from _sections(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _sections(item, f"{path}[{index}]")


def _of_resource(change: ResourceChange) -> Iterator[str]:
    if change.kind in (_NESTED_STACK, _PROVIDER) and change.effect is Effect.ADDED:
        yield f"{label(change)} ({change.stack}): added"
    for difference in change.differences:
        if _counts(change.kind, difference):
            yield f"{label(change)} ({change.stack}): {difference}"


def _counts(kind: str, difference: Difference) -> bool:
    if kind in (_NESTED_STACK, _PROVIDER):
        return True
    names = _segments(difference.path)
    if kind.startswith(_PREFIX) and _BOUNDARY in names:
        return True
    return any(name in names for name in _OPENING.get(kind, ()))


def _segments(path: str) -> list[str]:
    # The name of a list item may contain a dot.
    return _ITEM.sub("", path).split(".")
