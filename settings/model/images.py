"""Container images of an environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.model.base import LogDays, Part, Tag, text

_REPOSITORY = "lower-case letters and digits, parts separated by one of . _ / -"
_PATTERN = "[a-z0-9]+([._/-][a-z0-9]+)*"
# ECR allows 256 characters, of which the longest environment's name and a slash take 26.
RepositoryName = Annotated[str, text(_PATTERN, _REPOSITORY, 230, least=2)]


class Repository(Part):
    """One ECR repository."""

    name: RepositoryName = Field(description="Name of the repository.")
    scan_on_push: bool = Field(True, description="Scan images for vulnerabilities when they are pushed.")
    immutable: bool = Field(False, description="Refuse to overwrite a tag.")
    keep_images: int = Field(20, ge=1, le=1000, description="Number of tagged images to keep; older ones expire.")
    untagged_days: int = Field(7, ge=1, le=365, description="Days until an untagged image expires.")


class Build(Part):
    """Builds the training image in AWS CodeBuild from the folder container/."""

    repository: RepositoryName = Field("pytorch-training-custom", description="Repository that receives the image.")
    tag: Tag = Field("latest", description="Tag that each build moves. Each image also gets the tag build-<number>.")
    # https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html
    compute: Literal["medium", "large", "x-large", "2x-large"] = Field(
        "large",
        description="Size of the build machine. medium and large have 128 GB of disk, x-large 256 GB, 2x-large 824 GB;"
        " a build unpacks about 30 GB twice.",
    )
    timeout_minutes: int = Field(120, ge=15, le=480, description="Minutes after which a build is stopped.")
    every_days: int | None = Field(
        None, ge=1, le=365, description="Days between scheduled builds. Default: no schedule."
    )
    log_days: LogDays = Field(30, description="Days that build logs are kept.")


class Images(Part):
    """ECR repositories and the optional image build."""

    repositories: tuple[Repository, ...] = Field(
        (Repository(name="pytorch-training-custom"),), description="ECR repositories."
    )
    prefix: Annotated[str, text(f"({_PATTERN})?", f"{_REPOSITORY}, or an empty text", 25)] | None = Field(
        None,
        description="ECR names the repositories <prefix>/<name>. Default: the environment's name, so that several"
        " environments fit into one account and region. Empty: no prefix.",
    )
    build: Build | None = Field(None, description="Build of the training image in AWS. Default: no build.")
