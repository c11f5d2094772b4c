"""ECR repositories and the build of the training image."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.rules.finding import Finding
from settings.rules.items import repeated


def repositories(environment: Environment) -> Iterator[Finding]:
    """Repository names are unique."""
    for key, name, _ in repeated(
        (("images", "repositories", i, "name"), item.name) for i, item in enumerate(environment.images.repositories)
    ):
        yield Finding(key, name, "each repository once")


def build(environment: Environment) -> Iterator[Finding]:
    """A build pushes to one of the environment's repositories, and moves a tag there."""
    wanted = environment.images.build
    if wanted is None:
        return
    key = ("images", "build", "repository")
    by_name = {repository.name: repository for repository in environment.images.repositories}
    if wanted.repository not in by_name:
        yield Finding(key, wanted.repository, f"one of the repositories: {', '.join(by_name) or 'there are none'}")
    elif by_name[wanted.repository].immutable:
        yield Finding(
            key,
            f"{wanted.repository}, whose tags are immutable",
            "a repository without immutable: true",
            f"every build moves the tag {wanted.tag}, which ECR would refuse from the second build on",
        )


RULES = (repositories, build)
