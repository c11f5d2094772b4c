"""On-demand prices in USD. Each price in prices.json names its source and date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from settings.instances import DATA


@cache
def regions() -> Mapping[str, Mapping[str, Any]]:
    """The known prices of each region."""
    found: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "prices.json").read_text("utf-8"))["regions"]
    return found
