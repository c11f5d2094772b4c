"""The rules across fields of a pipeline file and the environments that it names."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from settings.faults import KeyPath
from settings.model import Environment
from settings.pipeline.model import Pipeline
from settings.regions import partition
from settings.rules.items import Finding, clashes, listed

Stages = list[tuple[KeyPath, Environment]]
"""The valid environments, with the keys of their stages."""


def findings(pipeline: Pipeline, stages: Stages) -> Iterator[Finding]:
    """The findings of all rules."""
    for rule in (runner, names, clusters, one_partition, github, emails):
        yield from rule(pipeline, stages)


def runner(pipeline: Pipeline, _: Stages) -> Iterator[Finding]:
    """At least one of CodePipeline and GitHub Actions deploys the changes."""
    if pipeline.source is None and pipeline.github is None:
        allowed = "source (CodePipeline), github (GitHub Actions), or both"
        yield Finding((), "neither source nor github", allowed, "add the key source or the key github")


def names(_: Pipeline, stages: Stages) -> Iterator[Finding]:
    """Each environment occurs once, and names are unique, because stages are named after their environments.

    The id `pipeline` is that of the pipeline's own stack.
    """
    for key, environment, first, _other in clashes(stages, lambda one, other: one[1].name == other[1].name):
        given = f"{environment.name}, the name of stages[{first[1]}] too"
        advice = "name the environment once, or give one of the two another name"
        yield Finding(key, given, "each environment once, by name", advice)
    for key, environment in stages:
        if environment.name == "pipeline":
            yield Finding(key, environment.name, "an environment of any other name")


def clusters(_: Pipeline, stages: Stages) -> Iterator[Finding]:
    """Two environments of one account and region may not create the same cluster."""
    place = attrgetter("account", "region", "cluster_name")
    for key, environment, first, _other in clashes(stages, lambda one, other: place(one[1]) == place(other[1])):
        given = f"the cluster {environment.cluster_name}, which stages[{first[1]}] has in that account and region"
        yield Finding(key, given, "another cluster in each stage of one account")


def one_partition(pipeline: Pipeline, stages: Stages) -> Iterator[Finding]:
    """Roles cannot be assumed across AWS partitions."""
    own = partition(pipeline.region)
    if pipeline.source is not None and pipeline.source.connection.split(":")[1] != own:
        allowed = f"a connection in the partition {own}, that of {pipeline.region}"
        yield Finding(("source", "connection"), pipeline.source.connection, allowed)
    for key, environment in stages:
        if partition(environment.region) != own:
            given = f"{environment.name} in {environment.region}"
            allowed = f"an environment in the partition {own}, that of {pipeline.region}"
            yield Finding(key, given, allowed, "write a pipeline for each partition")


def github(pipeline: Pipeline, stages: Stages) -> Iterator[Finding]:
    """GitHub's tokens contain the ids of both owner and repository, or of neither.

    An account allows one identity provider per URL, and each environment's own stack would create it.
    """
    github = pipeline.github
    if github is None:
        return
    if (github.owner_id is None) is not (github.repository_id is None):
        ids = ("owner_id", "repository_id")
        given, missing = ids if github.repository_id is None else reversed(ids)
        allowed = "both owner_id and repository_id, or neither"
        advice = f"to find both, run: gh api repos/{github.repository} --jq .owner.id,.id"
        yield Finding(("github",), f"{given} without {missing}", allowed, advice)
    if github.provider == "create":
        for key, _, first, _other in clashes(stages, lambda one, other: one[1].account == other[1].account):
            given = f"create, with stages[{first[1]}] and stages[{key[1]}] in one account"
            advice = "create the provider by hand, once for the account"
            yield Finding(("github", "provider"), given, "existing, where stages share an account", advice)


def emails(pipeline: Pipeline, _: Stages) -> Iterator[Finding]:
    """E-mail addresses are unique."""
    addresses = listed(("notifications", "emails"), pipeline.notifications.emails)
    for key, address, *_first in clashes(addresses, lambda one, other: one[1] == other[1]):
        yield Finding(key, address, "each address once")
