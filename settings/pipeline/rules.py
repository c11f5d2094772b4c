"""The rules across fields of a pipeline file and the environments that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from settings.model import Environment
from settings.pipeline.model import Pipeline
from settings.regions import partition
from settings.rules.finding import Finding

Environments = Mapping[int, Environment]
Rule = Callable[[Pipeline, Environments], Iterator[Finding]]


def findings(pipeline: Pipeline, environments: Environments) -> Iterator[Finding]:
    """The findings of all rules. `environments` holds the valid ones, by the index of their stage."""
    for rule in RULES:
        yield from rule(pipeline, environments)


def runner(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """At least one of CodePipeline and GitHub Actions deploys the changes."""
    if pipeline.source is None and pipeline.github is None:
        allowed = "source (CodePipeline), github (GitHub Actions), or both"
        yield Finding((), "neither source nor github", allowed, "add the key source or the key github")


def unique_names(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """Each environment occurs once, and names are unique, because stages are named after their environments."""
    first: dict[str, int] = {}
    for index, environment in sorted(environments.items()):
        if environment.name in first:
            given = f"{environment.name}, the name of stages[{first[environment.name]}] too"
            advice = "name the environment once, or give one of the two another name"
            yield Finding(("stages", index, "environment"), given, "each environment once, by name", advice)
        first.setdefault(environment.name, index)


def not_called_pipeline(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """The pipeline's own stack uses this id, next to the stages."""
    for index, environment in sorted(environments.items()):
        if environment.name == "pipeline":
            yield Finding(("stages", index, "environment"), environment.name, "an environment of any other name")


def unique_clusters(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """Two environments of one account and region may not create the same cluster."""
    first: dict[tuple[str, str, str], int] = {}
    for index, environment in sorted(environments.items()):
        place = (environment.account, environment.region, environment.cluster_name)
        if place in first:
            given = (
                f"the cluster {environment.cluster_name}, which stages[{first[place]}] has in that account and region"
            )
            yield Finding(("stages", index, "environment"), given, "another cluster in each stage of one account")
        first.setdefault(place, index)


def one_partition(pipeline: Pipeline, environments: Environments) -> Iterator[Finding]:
    """Roles cannot be assumed across AWS partitions."""
    own = partition(pipeline.region)
    if pipeline.source is not None:
        given = pipeline.source.connection
        if given.split(":")[1] != own:
            allowed = f"a connection in the partition {own}, that of {pipeline.region}"
            yield Finding(("source", "connection"), given, allowed)
    for index, environment in sorted(environments.items()):
        if partition(environment.region) != own:
            given = f"{environment.name} in {environment.region}"
            allowed = f"an environment in the partition {own}, that of {pipeline.region}"
            yield Finding(("stages", index, "environment"), given, allowed, "write a pipeline for each partition")


def one_provider_per_account(pipeline: Pipeline, environments: Environments) -> Iterator[Finding]:
    """An account allows one identity provider per URL, and each environment's own stack would create it."""
    if pipeline.github is None or pipeline.github.provider == "existing":
        return
    first: dict[str, int] = {}
    for index, environment in sorted(environments.items()):
        if environment.account in first:
            given = f"create, with stages[{first[environment.account]}] and stages[{index}] in one account"
            advice = "create the provider by hand, once for the account"
            yield Finding(("github", "provider"), given, "existing, where stages share an account", advice)
        first.setdefault(environment.account, index)


def both_ids(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """GitHub's tokens contain the ids of both owner and repository, or of neither."""
    github = pipeline.github
    if github is None or (github.owner_id is None) is (github.repository_id is None):
        return
    given, missing = ("owner_id", "repository_id") if github.repository_id is None else ("repository_id", "owner_id")
    allowed = "both owner_id and repository_id, or neither"
    advice = f"to find both, run: gh api repos/{github.repository} --jq .owner.id,.id"
    yield Finding(("github",), f"{given} without {missing}", allowed, advice)


def unique_emails(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """E-mail addresses are unique."""
    seen: set[str] = set()
    for index, address in enumerate(pipeline.notifications.emails):
        if address in seen:
            yield Finding(("notifications", "emails", index), address, "each address once")
        seen.add(address)


RULES: tuple[Rule, ...] = (
    *(runner, unique_names, not_called_pipeline, unique_clusters, one_partition, one_provider_per_account, both_ids),
    unique_emails,
)
