"""Resources are provisioned one by one, so a wait condition can stand in the way of what it waits for.

AWS makes everything that does not depend on the wait condition beside it. Here wait conditions, and what depends
on them, are put last.
"""

from __future__ import annotations

from typing import Any

from ministack.services.cloudformation import changesets, drift, engine, handlers, provisioners, stacks

_WAITS = "AWS::CloudFormation::WaitCondition"


def install() -> None:
    """Reorder the provisioning order."""
    original = engine._topological_sort

    def sort(resources: dict[str, Any], conditions: dict[str, Any]) -> list[str]:
        order: list[str] = original(resources, conditions)
        late: set[str] = set()
        for name in order:
            definition = resources[name]
            if definition.get("Type") == _WAITS or engine._extract_deps(definition, set(order)) & late:
                late.add(name)
        return [name for name in order if name not in late] + [name for name in order if name in late]

    for module in (engine, stacks, changesets, handlers, provisioners, drift):
        if getattr(module, "_topological_sort", None) is original:
            module._topological_sort = sort
