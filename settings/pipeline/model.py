"""One pipeline: the whole of what one file under `pipelines/` says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import Name, Part

Approval = Literal["always", "none"]


class Source(Part):
    """Where a change comes from: a repository behind a connection of CodeConnections."""

    connection: Annotated[str, StringConstraints(pattern=patterns.CONNECTION)] = Field(
        description="ARN of the connection to GitHub, GitLab or Bitbucket, made and authorized once in the console."
    )
    repository: Annotated[str, StringConstraints(pattern=patterns.OWNED_REPOSITORY, max_length=200)] = Field(
        description="As `owner/repository`."
    )
    branch: Annotated[str, StringConstraints(pattern=patterns.BRANCH, max_length=200)] = Field(
        default="main", description="A push to this branch starts the pipeline."
    )


class Stage(Part):
    """One environment on the way."""

    environment: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="A name under environments/, or a file's path from the folder above it."
    )
    approval: Approval | None = Field(
        default=None,
        description="Whether a person lets every change in (`always`), or only what the gates stop (`none`). "
        "Left out: `always` for the last stage, `none` for the others.",
    )


class Notifications(Part):
    """Who hears of it."""

    emails: tuple[Annotated[str, StringConstraints(pattern=patterns.EMAIL, max_length=250)], ...] = Field(
        default=(), description="Addresses; each gets a mail to confirm its subscription."
    )


class GitHub(Part):
    """Roles for a GitHub Actions workflow, which comes in by OpenID Connect and has no keys."""

    repository: Annotated[str, StringConstraints(pattern=patterns.OWNED_REPOSITORY, max_length=200)] = Field(
        description="As `owner/repository`: the only one that may take the roles."
    )
    owner_id: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Number that GitHub has given to the owner, with `repository_id`. Its tokens name both for a "
        "repository that was made, renamed or moved since 15 July 2026, or has chosen so.",
    )
    repository_id: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number that GitHub has given to the repository, with `owner_id`."
    )
    provider: Literal["create", "existing"] = Field(
        default="create",
        description="An account holds one identity provider of GitHub: make it, or use the one that is there.",
    )

    @property
    def subject(self) -> str:
        """The repository as the subject of GitHub's tokens has it. An id stays when a name is given to another."""
        if self.owner_id is None or self.repository_id is None:
            return f"repo:{self.repository}"
        owner, _, name = self.repository.partition("/")
        return f"repo:{owner}@{self.owner_id}/{name}@{self.repository_id}"


class Pipeline(Part):
    """The way of a change through the environments."""

    name: Annotated[Name, StringConstraints(max_length=25)] = Field(
        description="Of the pipeline and its stack, and prefix of its roles."
    )
    account: Annotated[str, StringConstraints(pattern=patterns.ACCOUNT)] = Field(
        description="Id of the account that runs the pipeline, in quotes."
    )
    region: Annotated[str, StringConstraints(pattern=patterns.REGION)] = Field(
        description="Region that runs the pipeline."
    )
    source: Source | None = Field(
        default=None, description="Repository of the CodePipeline pipeline. Without it, none is made."
    )
    github: GitHub | None = Field(default=None, description="Roles for GitHub Actions. Without it, none are made.")
    stages: tuple[Stage, ...] = Field(min_length=1, description="The environments, the first one first.")
    notifications: Notifications = Field(default=Notifications(), description="Who hears of it.")
    log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = Field(
        default=90, description="Days that the logs of all steps are kept."
    )
    artifact_days: Annotated[int, Field(ge=7, le=3650)] = Field(
        default=90, description="Days that reports and assemblies are kept in the artifact bucket."
    )

    def approval(self, stage: int) -> Approval:
        """Whether a person lets every change into the stage of this index."""
        said = self.stages[stage].approval
        if said is not None:
            return said
        return "always" if stage == len(self.stages) - 1 else "none"
