"""One pipeline: everything that one file under `environments/pipelines/` describes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model.base import Account, Email, LogDays, Part, PrefixName, Region, text

_CONNECTION = "the ARN of a connection, arn:aws:codeconnections:<region>:<account>:connection/<id>"
_SERVICE = "(codeconnections|codestar-connections)"
_BRANCH = "a branch name: letters, digits, dots, _ / and -, not starting with a dot or -"

Approval = Literal["always", "none"]
Connection = Annotated[
    str, text(rf"arn:aws[a-z-]*:{_SERVICE}:[a-z0-9-]+:\d{{12}}:connection/[0-9a-f-]{{36}}", _CONNECTION)
]
Repository = Annotated[str, text("[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+", "<owner>/<repository>", 200)]
Branch = Annotated[str, text("[A-Za-z0-9_][A-Za-z0-9._/-]*", _BRANCH, 200)]


class Source(Part):
    """The repository that changes come from, through a CodeConnections connection."""

    connection: Connection = Field(
        description="ARN of the connection to GitHub, GitLab or Bitbucket. Create and authorize it in the console."
    )
    repository: Repository = Field(description="Repository, as `owner/repository`.")
    branch: Branch = Field("main", description="A push to this branch starts the pipeline.")


class Stage(Part):
    """One environment of the pipeline."""

    environment: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="A name under environments/, or the path of a file from the top of the repository."
    )
    approval: Approval | None = Field(
        None,
        description="`always`: a person approves every change. `none`: only changes that a gate stops need approval."
        " Default: `always` for the last stage, `none` for the others.",
    )


class Notifications(Part):
    """Who is notified."""

    emails: tuple[Email, ...] = Field(
        (), description="E-mail addresses; each receives a mail to confirm its subscription."
    )


class GitHub(Part):
    """IAM roles for a GitHub Actions workflow, which authenticates with OpenID Connect instead of keys."""

    repository: Repository = Field(description="The only repository that may assume the roles, as `owner/repository`.")
    owner_id: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="GitHub's numeric id of the owner, together with `repository_id`. Tokens contain both ids for "
        "repositories that were created, renamed or moved since 15 July 2026, or that opted in.",
    )
    repository_id: Annotated[int, Field(ge=1)] | None = Field(
        None, description="GitHub's numeric id of the repository, together with `owner_id`."
    )
    provider: Literal["create", "existing"] = Field(
        "create",
        description="An account can have one identity provider for GitHub: create it, or use the existing one.",
    )

    @property
    def subject(self) -> str:
        """The subject of GitHub's tokens for the repository. Unlike a name, an id is never reused."""
        if self.owner_id is None or self.repository_id is None:
            return f"repo:{self.repository}"
        owner, _, name = self.repository.partition("/")
        return f"repo:{owner}@{self.owner_id}/{name}@{self.repository_id}"


class Pipeline(Part):
    """The path of a change through the environments."""

    name: PrefixName = Field(description="Name of the pipeline and its stack, and prefix of its roles.")
    account: Account = Field(description="Id of the account that runs the pipeline, in quotes.")
    region: Region = Field(description="Region that runs the pipeline.")
    source: Source | None = Field(
        None, description="Repository of the CodePipeline pipeline. Default: no CodePipeline pipeline."
    )
    github: GitHub | None = Field(None, description="Roles for GitHub Actions. Default: none.")
    stages: tuple[Stage, ...] = Field(min_length=1, description="The environments, in order.")
    notifications: Notifications = Field(Notifications(), description="Who is notified.")
    log_days: LogDays = Field(90, description="Days that the logs of all steps are kept.")
    artifact_days: Annotated[int, Field(ge=7, le=3650)] = Field(
        90, description="Days that reports and cloud assemblies are kept in the artifact bucket."
    )

    def approval(self, stage: int) -> Approval:
        """Whether a person approves every change before the stage with this index."""
        chosen = self.stages[stage].approval
        if chosen is not None:
            return chosen
        return "always" if stage == len(self.stages) - 1 else "none"
