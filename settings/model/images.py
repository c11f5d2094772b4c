"""Container images of an environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import Part


class Repository(Part):
    """One ECR repository."""

    name: Annotated[str, StringConstraints(pattern=patterns.REPOSITORY, min_length=2, max_length=256)] = Field(
        description="Name of the repository."
    )
    scan_on_push: bool = Field(default=True, description="Scan an image for vulnerabilities when it is pushed.")
    immutable: bool = Field(default=False, description="Refuse to overwrite a tag.")
    keep_images: int = Field(default=20, ge=1, le=1000, description="Tagged images that are kept; older ones expire.")
    untagged_days: int = Field(default=7, ge=1, le=365, description="Days until an image without a tag expires.")


class Build(Part):
    """A build of the training image in AWS, by CodeBuild, from the folder container/."""

    repository: Annotated[str, StringConstraints(pattern=patterns.REPOSITORY, min_length=2, max_length=256)] = Field(
        default="pytorch-training-custom", description="The repository that the image is pushed to."
    )
    tag: Annotated[str, StringConstraints(pattern=patterns.TAG, max_length=128)] = Field(
        default="latest", description="The tag that each build moves; each also has a tag build-<number> of its own."
    )
    # https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html
    compute: Literal["medium", "large", "x-large", "2x-large"] = Field(
        default="large",
        description="The machine. medium and large have 128 GB of disk, x-large 256, 2x-large 824; a build unpacks "
        "some 30 GB twice.",
    )
    timeout_minutes: int = Field(default=120, ge=15, le=480, description="Minutes after which a build is stopped.")
    every_days: int | None = Field(
        default=None, ge=1, le=365, description="Days between builds that start by themselves; none start by default."
    )
    log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = Field(
        default=30, description="Days that a build's log is kept."
    )


class Images(Part):
    """ECR repositories and the optional image build."""

    repositories: tuple[Repository, ...] = Field(
        default=(Repository(name="pytorch-training-custom"),), description="ECR repositories."
    )
    build: Build | None = Field(default=None, description="Build the training image in AWS; off by default.")
