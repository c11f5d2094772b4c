"""Changes that may broaden permissions and that the CDK does not count.

The CDK compares the policy statements and the security group rules of a template. It does not look into the cluster's
configuration, from which ParallelCluster makes roles and security groups, nor into the parameters of a nested stack.
Each change of these is reported, whether it grants more or less: only the account knows what the policies contain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ops.review.cluster import Cluster, Key, Outcome
from ops.review.resources import Effect, ResourceChange
from ops.review.structure import Difference
from ops.review.verdict import Verdict, label

SECTIONS = frozenset({"Iam", "AllowedIps", "AdditionalSecurityGroups", "SecurityGroups", "Imds"})
"""Keys of a cluster configuration that set what its nodes may do, and who may connect to them."""

_WHOLE = ("AWS::CloudFormation::Stack", "AWS::IAM::OIDCProvider")
"""Types of which every property counts."""
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
    return tuple(f"cluster {cluster.name}: {change}" for key in cluster.keys for change in _of_key(key))


def _of_key(key: Key) -> Iterator[Difference]:
    if SECTIONS & set(_segments(key.path)):
        yield Difference(key.path, key.old, key.new)
        return
    before = dict(_sections(key.old, key.path))
    for path, value in _sections(key.new, key.path):
        if before.get(path) != value:
            yield Difference(path, before.get(path), value)


def _sections(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The `SECTIONS` within a value, by their path."""
    items: Iterable[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        items = ((f"{path}.{name}", item) for name, item in value.items())
    elif isinstance(value, list):
        items = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    for inner, item in items:
        if inner.rpartition(".")[2] in SECTIONS:
            yield inner, item
        else:
            yield from _sections(item, inner)


def _of_resource(change: ResourceChange) -> Iterator[str]:
    named = f"{label(change)} ({change.stack})"
    if change.type in _WHOLE and change.effect is Effect.ADDED:
        yield f"{named}: added"
    counted = (*_OPENING.get(change.type, ()), *(("PermissionsBoundary",) if "::IAM::" in change.type else ()))
    for difference in change.differences:
        if change.type in _WHOLE or set(counted) & set(_segments(difference.path)):
            yield f"{named}: {difference}"


def _segments(path: str) -> list[str]:
    # The name of a list item may contain a dot.
    return _ITEM.sub("", path).split(".")
