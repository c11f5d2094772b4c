"""The build of the training image."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.rules.finding import Finding, rule


@rule
def build(environment: Environment) -> Iterator[Finding]:
    """A build pushes to one of the environment's repositories, whose tags it may move."""
    if (wanted := environment.images.build) is None:
        return
    key = ("images", "build", "repository")
    repositories = {repository.name: repository for repository in environment.images.repositories}
    if wanted.repository not in repositories:
        yield Finding(key, wanted.repository, f"one of the repositories: {', '.join(repositories) or 'there are none'}")
    elif repositories[wanted.repository].immutable:
        yield Finding(
            key,
            f"{wanted.repository}, whose tags are immutable",
            "a repository without immutable: true",
            f"every build moves the tag {wanted.tag}, which ECR would refuse from the second on",
        )


RULES = (build,)
