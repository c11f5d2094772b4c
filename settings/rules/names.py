"""Names and tags: limits of ParallelCluster, Slurm, CloudFormation and S3, and uniqueness."""

from __future__ import annotations

import re
from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, for_each
from settings.rules.items import computes, lustres, models, queues, repeated, volumes
from settings.stacks import STACKS, stack_name

MAX_CLUSTER_NAME_WITH_ACCOUNTING = 40
BUCKET_PREFIXES_OF_S3 = ("xn--", "sthree-", "amzn-s3-demo-")
MAX_TAGS = 40
TAG_PREFIXES = ("aws:", "parallelcluster:", "trainyard:")
TAG_KEY = re.compile(r"[\w .:/=+@-]{1,128}")
TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")


def cluster(environment: Environment) -> Iterator[Finding]:
    """The cluster's name is not the name of another stack, as the cluster's own CloudFormation stack bears it.

    With accounting it has at most 40 characters, because Slurm uses it in table names. Source: ParallelCluster 3.16.1,
    PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING.
    """
    name = environment.cluster_name
    key: KeyPath = ("cluster", "name") if environment.cluster.name else ("name",)
    if environment.cluster.slurm.accounting and len(name) > MAX_CLUSTER_NAME_WITH_ACCOUNTING:
        allowed = f"at most {MAX_CLUSTER_NAME_WITH_ACCOUNTING} characters with accounting"
        yield Finding(key, f"{name} ({len(name)} characters)", allowed)
    if name in {stack_name(environment, part) for part in STACKS}:
        yield Finding(key, name, "a name that none of the environment's own stacks has", "choose another name")


def predecessor(environment: Environment) -> Iterator[Finding]:
    """The predecessor is another cluster."""
    if environment.cluster.predecessor == environment.cluster_name:
        allowed = "another name than the cluster's own"
        yield Finding(("cluster", "predecessor"), environment.cluster_name, allowed, "give the new cluster a name")


def _storage(environment: Environment) -> list[tuple[KeyPath, str]]:
    file_systems = [(key, item.name) for key, item in lustres(environment)]
    return file_systems + [(key, item.name) for key, item in volumes(environment)]


def not_default(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster forbids the name `default`.

    Source: ParallelCluster 3.16.1, NameValidator and SharedStorageNameValidator.
    """
    items: list[tuple[KeyPath, str]] = [(key, item.name) for key, item in queues(environment)]
    items += [(key, item.name) for key, item in computes(environment)]
    items += _storage(environment)
    if environment.cluster.login_nodes:
        items.append((("cluster", "login_nodes"), environment.cluster.login_nodes.name))
    for key, name in items:
        if name == "default":
            yield Finding((*key, "name"), name, "any other name: ParallelCluster forbids this one")


def _unique(named: list[tuple[KeyPath, str]], what: str) -> Iterator[Finding]:
    for key, name, first in repeated(named):
        yield Finding((*key, "name"), f"{name}, the name of {key_text(first)} too", f"a name that no other {what} has")


def unique(environment: Environment) -> Iterator[Finding]:
    """Names of queues, of projects and of file systems are unique. Lustre and OpenZFS volumes share one namespace."""
    yield from _unique([(key, item.name) for key, item in queues(environment)], "queue")
    yield from _unique([(key, item.name) for key, item in models(environment)], "model")
    yield from _unique(_storage(environment), "file system or volume")


@for_each(queues)
def unique_in_queue(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """Compute resources are unique in their queue: nodes are named <queue>-dy-<compute resource>-<number>."""
    named: list[tuple[KeyPath, str]] = [((*key, "compute", i), item.name) for i, item in enumerate(queue.compute)]
    yield from _unique(named, "compute resource of the queue")


def bucket_prefix(environment: Environment) -> Iterator[Finding]:
    """S3 reserves some prefixes. Source: S3 user guide, "General purpose bucket naming rules"."""
    given = environment.storage.buckets.name_prefix
    if given and given.startswith(BUCKET_PREFIXES_OF_S3):
        allowed = f"a prefix that does not start with {', '.join(BUCKET_PREFIXES_OF_S3)}, which S3 reserves"
        yield Finding(("storage", "buckets", "name_prefix"), given, allowed)


def tags(environment: Environment) -> Iterator[Finding]:
    """AWS allows 50 tags per resource; ten are left for CloudFormation, ParallelCluster and Trainyard.

    Source: Tagging AWS resources, "Tag naming limits". ParallelCluster's schema refuses `parallelcluster:`.
    """
    if len(environment.tags) > MAX_TAGS:
        yield Finding(("tags",), f"{len(environment.tags)} tags", f"at most {MAX_TAGS}")
    for key, value in environment.tags.items():
        at = ("tags", key)
        if key.lower().startswith(TAG_PREFIXES):
            yield Finding(at, key, f"a key that does not start with {', '.join(TAG_PREFIXES)}")
        elif not TAG_KEY.fullmatch(key):
            yield Finding(at, f"the key {key[:60]!r}", "1 to 128 letters, digits, spaces and _ . : / = + - @")
        if not TAG_VALUE.fullmatch(value):
            yield Finding(at, repr(value[:60]), "at most 256 letters, digits, spaces and _ . : / = + - @")


RULES = (cluster, predecessor, not_default, unique, unique_in_queue, bucket_prefix, tags)
