"""Container images of an environment."""

from __future__ import annotations

from typing import Annotated

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


class Images(Part):
    """ECR repositories and the optional image build."""

    repositories: tuple[Repository, ...] = Field(
        default=(Repository(name="pytorch-training-custom"),), description="ECR repositories."
    )
