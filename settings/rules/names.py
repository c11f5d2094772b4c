"""Names, tags and repositories: limits of ParallelCluster, Slurm, CloudFormation and S3, and uniqueness."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.images import Repository
from settings.model.storage import Lustre
from settings.rules import items
from settings.rules.items import Finding, Items, Named, clashes, for_each
from settings.stacks import STACKS, pascal, stack_name

MAX_CLUSTER_NAME_WITH_ACCOUNTING = 40
BUCKET_PREFIXES_OF_S3 = ("xn--", "sthree-", "amzn-s3-demo-")
MAX_TAGS = 38
TAG_PREFIXES = ("aws:", "parallelcluster:", "trainyard:")
TAG_KEY = re.compile(r"[\w .:/=+@-]{1,128}")
TAG_VALUE = re.compile(r"[\w .:/=+@-]{1,256}")


def cluster(environment: Environment) -> Iterator[Finding]:
    """The cluster's CloudFormation stack has the cluster's name, so no other stack may have it.

    With accounting it has at most 40 characters, because Slurm uses it in table names. Source: ParallelCluster 3.16.1,
    PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING. The predecessor is another cluster.
    """
    name = environment.cluster_name
    key: KeyPath = ("cluster", "name") if environment.cluster.name else ("name",)
    if environment.cluster.slurm.accounting and len(name) > MAX_CLUSTER_NAME_WITH_ACCOUNTING:
        allowed = f"at most {MAX_CLUSTER_NAME_WITH_ACCOUNTING} characters with accounting"
        yield Finding(key, f"{name} ({len(name)} characters)", allowed)
    if name in {stack_name(environment, part) for part in STACKS}:
        yield Finding(key, name, "a name that none of the environment's own stacks has", "choose another name")
    if environment.cluster.predecessor == name:
        advice = "set cluster.name to the new cluster's name"
        yield Finding(("cluster", "predecessor"), name, "another name than the cluster's own", advice)


def _named_for_parallelcluster(environment: Environment) -> Items[Named]:
    yield from items.queues(environment)
    yield from items.computes(environment)
    yield from items.shared(environment)
    if environment.cluster.login_nodes:
        yield ("cluster", "login_nodes"), environment.cluster.login_nodes


@for_each(_named_for_parallelcluster)
def not_default(_: Environment, key: KeyPath, item: Named) -> Iterator[Finding]:
    """ParallelCluster forbids the name `default`.

    Source: ParallelCluster 3.16.1, NameValidator and SharedStorageNameValidator.
    """
    if item.name == "default":
        yield Finding((*key, "name"), item.name, "any other name: ParallelCluster forbids this one")


def _same(one: tuple[KeyPath, Named], other: tuple[KeyPath, Named]) -> bool:
    """Whether names are equal. Those of repositories and Lustre file systems are part of the ids of outputs."""
    both = all(isinstance(item, Repository | Lustre) for _, item in (one, other))
    return one[1].name == other[1].name or (both and pascal(one[1].name) == pascal(other[1].name))


def unique(environment: Environment) -> Iterator[Finding]:
    """Names are unique. Lustre and OpenZFS volumes share one namespace.

    Compute resources are unique in their queue: nodes are named <queue>-dy-<compute resource>-<number>.
    """
    namespaces: list[tuple[str, Items[Named]]] = [
        ("queue", items.queues(environment)),
        ("model", items.models(environment)),
        ("file system or volume", items.shared(environment)),
        ("repository", items.repositories(environment)),
    ]
    for key, queue in items.queues(environment):
        namespaces.append(("compute resource of the queue", items.listed((*key, "compute"), queue.compute)))
    for what, named in namespaces:
        for key, item, first, other in clashes(named, _same):
            given = f"{item.name}, which clashes with {other.name} of {key_text(first)}"
            advice = "" if item.name == other.name else "names of outputs have letters and digits only: rename one"
            yield Finding((*key, "name"), given, f"a name that no other {what} has", advice)


def image_build(environment: Environment) -> Iterator[Finding]:
    """A build pushes to one of the environment's repositories, and moves a tag there."""
    build = environment.images.build
    if build is None:
        return
    key = ("images", "build", "repository")
    by_name = {repository.name: repository for repository in environment.images.repositories}
    if build.repository not in by_name:
        yield Finding(key, build.repository, f"one of the repositories: {', '.join(by_name) or 'there are none'}")
    elif by_name[build.repository].immutable:
        given = f"{build.repository}, whose tags are immutable"
        advice = f"remove immutable: true, or use another repository: each build moves the tag {build.tag}"
        yield Finding(key, given, "a repository without immutable: true", advice)


def bucket_prefix(environment: Environment) -> Iterator[Finding]:
    """S3 reserves some prefixes. Source: S3 user guide, "General purpose bucket naming rules"."""
    given = environment.storage.buckets.name_prefix
    if given and given.startswith(BUCKET_PREFIXES_OF_S3):
        allowed = f"a prefix that does not start with {', '.join(BUCKET_PREFIXES_OF_S3)}, which S3 reserves"
        yield Finding(("storage", "buckets", "name_prefix"), given, allowed)


def tags(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster allows 40 tags, of which Trainyard sets two: trainyard:environment and trainyard:owner.

    Source: ParallelCluster 3.16.1, MAX_TAGS_COUNT; its schema refuses `parallelcluster:`. CloudFormation API, TagValue.
    IAM user guide, "Tags for AWS Identity and Access Management resources": keys of roles are the same in any case.
    """
    if len(environment.tags) > MAX_TAGS:
        yield Finding(("tags",), f"{len(environment.tags)} tags", f"at most {MAX_TAGS}")
    first: dict[str, str] = {}
    for key, value in environment.tags.items():
        at = ("tags", key)
        if (other := first.setdefault(key.lower(), key)) != key:
            yield Finding(at, key, f"one of {other} and {key}: for IAM they are the same key")
        if key.lower().startswith(TAG_PREFIXES):
            yield Finding(at, key, f"a key that does not start with {', '.join(TAG_PREFIXES)}")
        elif not TAG_KEY.fullmatch(key):
            yield Finding(at, f"the key {key[:60]!r}", "1 to 128 letters, digits, spaces and _ . : / = + - @")
        if not TAG_VALUE.fullmatch(value):
            yield Finding(at, repr(value[:60]), "1 to 256 letters, digits, spaces and _ . : / = + - @")


def permissions_boundary(environment: Environment) -> Iterator[Finding]:
    """A production environment has a boundary: its ParallelCluster API creates roles. IAM finds it in the account.

    Source: IAM user guide, "Permissions boundaries for IAM entities": an AWS managed or a customer managed policy.
    """
    key, boundary = ("cluster", "permissions_boundary"), environment.cluster.permissions_boundary
    if boundary is None:
        if environment.production:
            advice = "create the policy (docs/permissions.md) and name it here, or leave production out"
            yield Finding(key, "nothing, with production: true", "the ARN of a policy", advice)
    elif boundary.split(":")[4] not in (environment.account, "aws"):
        yield Finding(key, boundary, f"a policy of the environment's account {environment.account}, or of AWS")


RULES = (permissions_boundary, cluster, not_default, unique, image_build, bucket_prefix, tags)
