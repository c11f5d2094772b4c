"""A change set that changes outputs alone counts as no change.

AWS executes it: that is how one stack begins to export what another will import.
"""

from __future__ import annotations

from typing import Any

from ministack.services.cloudformation import changesets


class _Executable(list[Any]):
    """An empty list of resource changes that is a change all the same."""

    def __bool__(self) -> bool:
        return True


def install() -> None:
    """Let a difference in Outputs make a change set that can be executed."""
    original = changesets._diff_resources

    def diff(old: dict[str, Any], new: dict[str, Any], *rest: Any, **named: Any) -> Any:
        changes = original(old, new, *rest, **named)
        return changes if changes or old.get("Outputs") == new.get("Outputs") else _Executable()

    changesets._diff_resources = diff
