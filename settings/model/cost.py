"""What an environment may cost: the user's own prices and a budget."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.model.base import Email, Part
from settings.model.cluster import InstanceType


class Budget(Part):
    """An AWS budget of the environment, by its cost-allocation tag."""

    monthly_usd: int = Field(gt=0, description="USD a month.")
    emails: tuple[Email, ...] = Field(
        (),
        max_length=10,
        description="Addresses that the alerts at 50, 80 and 100 % go to, in addition to observability's.",
    )
    at_limit: Literal["alert", "stop-new-jobs"] = Field(
        "alert", description="What happens at 100 %. stop-new-jobs: Slurm starts no further jobs; running jobs go on."
    )


class Cost(Part):
    """Prices and budget (docs/cost.md)."""

    prices: dict[InstanceType, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="USD an instance-hour that you pay, for example in a reservation or a capacity block, instead of"
        " the on-demand price of the price table.",
    )
    budget: Budget | None = Field(None, description="A monthly budget with alerts. Default: none.")
