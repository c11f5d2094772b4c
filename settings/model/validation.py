"""What the validation of a deployed cluster must not leave out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import Part

Check = Literal["head-scan", "scan", "hello-gpu", "gpu-check", "nccl", "storage"]


class Validation(Part):
    """How `make validate`, and a pipeline's last gate, ask the cluster (docs/validation.md)."""

    image: Annotated[str, StringConstraints(pattern=patterns.TAG, max_length=128)] | None = Field(
        default=None,
        description="Name of an imported image that has nccl-tests, and IOR and mdtest or fio. "
        "Left out: the nodes' own programs.",
    )
    required: tuple[Check, ...] = Field(
        default=(), description="Checks that fail where they cannot be asked, instead of being left out."
    )
