"""The rules across fields of a pipeline file and of the environments that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from settings.model import Environment
from settings.model.base import NotSoundError
from settings.pipeline.model import Pipeline
from settings.regions import partition
from settings.rules.finding import Finding

Environments = Mapping[int, Environment]
Rule = Callable[[Pipeline, Environments], Iterator[Finding]]


def findings(pipeline: Pipeline, environments: Environments, *, partial: bool) -> Iterator[Finding]:
    """What all rules find. With `partial`, a rule that needs an unsound field is passed over."""
    for rule in RULES:
        try:
            yield from rule(pipeline, environments)
        except NotSoundError:
            if not partial:
                raise


def runner(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """Something must carry the changes."""
    if pipeline.source is None and pipeline.github is None:
        allowed = "source (CodePipeline), github (GitHub Actions), or both"
        yield Finding((), "neither source nor github", allowed, "add the key source or the key github")


def once(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """Each environment once. Stages are called by the environment's name, so that must be its own."""
    first: dict[str, int] = {}
    for index, environment in sorted(environments.items()):
        if environment.name in first:
            given = f"{environment.name}, the name of stages[{first[environment.name]}] too"
            advice = "name the environment once, or give one of the two another name"
            yield Finding(("stages", index, "environment"), given, "each environment once, by name", advice)
        first.setdefault(environment.name, index)


def not_the_pipelines(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """The pipeline's own stack stands beside the stages, under this id."""
    for index, environment in sorted(environments.items()):
        if environment.name == "pipeline":
            yield Finding(("stages", index, "environment"), environment.name, "an environment of any other name")


def clusters_once(_: Pipeline, environments: Environments) -> Iterator[Finding]:
    """Two environments of one account and region must not make the same cluster."""
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
    """Roles are not assumed from one partition of AWS into another, nor is anything deployed."""
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


def one_provider_an_account(pipeline: Pipeline, environments: Environments) -> Iterator[Finding]:
    """An account takes one identity provider of a URL, and each environment's own stack would make it."""
    if pipeline.github is None or pipeline.github.provider == "existing":
        return
    first: dict[str, int] = {}
    for index, environment in sorted(environments.items()):
        if environment.account in first:
            given = f"create, with stages[{first[environment.account]}] and stages[{index}] in one account"
            advice = "make the provider by hand, once for the account"
            yield Finding(("github", "provider"), given, "existing, where stages share an account", advice)
        first.setdefault(environment.account, index)


def both_ids(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """GitHub's tokens name owner and repository by number, or neither of them."""
    github = pipeline.github
    if github is None or (github.owner_id is None) is (github.repository_id is None):
        return
    given, missing = ("owner_id", "repository_id") if github.repository_id is None else ("repository_id", "owner_id")
    allowed = "both owner_id and repository_id, or none of them"
    advice = f"ask for both: gh api repos/{github.repository} --jq .owner.id,.id"
    yield Finding(("github",), f"{given} without {missing}", allowed, advice)


def emails_once(pipeline: Pipeline, _: Environments) -> Iterator[Finding]:
    """Each address once."""
    seen: set[str] = set()
    for index, address in enumerate(pipeline.notifications.emails):
        if address in seen:
            yield Finding(("notifications", "emails", index), address, "each address once")
        seen.add(address)


RULES: tuple[Rule, ...] = (
    *(runner, once, not_the_pipelines, clusters_once, one_partition, one_provider_an_account, both_ids, emails_once),
)
