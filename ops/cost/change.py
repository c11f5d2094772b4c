"""What a change of an environment adds to its cost, or saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ops.cost.estimate import Estimate, Item, estimate
from ops.cost.prices import Prices

if TYPE_CHECKING:
    from ops.review.stacks import Stacks
    from settings import Environment

_LEAST = 0.005
"""Dollars that are shown as $0.01."""


@dataclass(frozen=True)
class Row:
    """A kind of resource whose number or price differs. `old`, `new`: the item on each side, if it is there."""

    old: Item | None
    new: Item | None

    @property
    def item(self) -> Item:
        found = self.new or self.old
        assert found is not None  # noqa: S101 - one side has it
        return found

    def difference(self, of: str) -> float | None:
        """USD an hour (`idle`, `full`), or of storage a month; None if a price is unknown."""
        if self.item.price is None:
            return None
        old, new = (getattr(item, of) * item.price if item and item.price else 0.0 for item in (self.old, self.new))
        return float(new - old)


@dataclass(frozen=True)
class Change:
    """An environment's price before and after a change, both at today's prices."""

    old: Estimate
    new: Estimate

    @property
    def rows(self) -> tuple[Row, ...]:
        """What differs."""
        sides = (self.old, self.new)
        old, new = ({(item.category, item.what, item.price): item for item in side.items} for side in sides)
        pairs = [Row(old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old])]
        return tuple(row for row in pairs if row.old != row.new)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What differs and has no known price."""
        return tuple(
            f"{_count(row.old)} -> {_count(row.new)} x {row.item.what}" for row in self.rows if row.item.price is None
        )

    def sentence(self, currency: str = "$") -> str:
        """The three differences in one sentence. Costs of unknown price are counted."""
        parts = [
            _more(self.new.idle - self.old.idle, "per hour idle", currency),
            _more(self.new.full - self.old.full, "per hour at full size", currency),
            _more(self.new.storage - self.old.storage, "per month for storage", currency),
        ]
        known = "This change costs " + ", ".join(filter(None, parts)) if any(parts) else "No known cost changes"
        return f"{known}; {len(self.unknown)} of the changes have no known price" if self.unknown else known

    def as_data(self) -> dict[str, object]:
        """For JSON."""
        return {
            "sentence": self.sentence(),
            "idle_usd_per_hour": round(self.new.idle - self.old.idle, 6),
            "full_usd_per_hour": round(self.new.full - self.old.full, 6),
            "storage_usd_per_month": round(self.new.storage - self.old.storage, 6),
            "rows": [{"what": row.item.what, "old": row.old, "new": row.new} for row in self.rows],
            "unknown": self.unknown,
            "before": self.old.as_data(),
            "after": self.new.as_data(),
        }


def change(environment: Environment, old: Stacks, new: Stacks) -> Change:
    """The change of cost from one side's templates to the other's, at prices of the table and of `cost.prices`."""
    prices = Prices.of(environment)
    return Change(estimate(old, prices), estimate(new, prices))


def signed(amount: float | None, unit: str) -> str:
    """A difference for a table."""
    if amount is None:
        return "unknown"
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.2f} {unit}" if abs(amount) >= _LEAST else ""


def cells(row: Row) -> tuple[str, str, str, str]:
    """What differs, its numbers at full size, and the difference idle and at full size, or a month of storage."""
    counts = f"{_count(row.old)} -> {_count(row.new)}"
    if row.item.is_storage:
        return row.item.what, counts, "", signed(row.difference("full"), "a month")
    return row.item.what, counts, signed(row.difference("idle"), "an hour"), signed(row.difference("full"), "an hour")


def _count(item: Item | None) -> str:
    return f"{item.full:g}" if item else "0"


def _more(amount: float, of: str, currency: str) -> str:
    if abs(amount) < _LEAST:
        return ""
    return f"{currency}{abs(amount):,.2f} {'more' if amount > 0 else 'less'} {of}"
