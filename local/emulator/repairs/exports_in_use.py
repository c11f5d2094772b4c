"""A stack may drop or change an export that another stack imports.

AWS refuses it, whatever the resource behind it: what another stack uses cannot go before that stack lets go of it.
"""

from __future__ import annotations

from typing import Any

from ministack.services.cloudformation import _exports, _stacks, handlers, stacks


def install() -> None:
    """Fail an update whose outputs leave out, or change, what another stack imports."""
    original = stacks._resolve_stack_outputs

    def resolve(*arguments: Any) -> Any:
        found, exports = original(*arguments)
        own = arguments[-1]
        for export, record in list(_exports.items()):
            if record["StackId"] != own or exports.get(export, {}).get("Value") == record["Value"]:
                continue
            verb = "update" if export in exports else "delete"
            for importer in _importers(export, own):
                raise ValueError(f"Cannot {verb} export {export} as it is in use by {importer}")
            if verb == "delete":
                del _exports[export]
        return found, exports

    stacks._resolve_stack_outputs = resolve


def _importers(export: str, own: str) -> list[str]:
    return [
        name
        for name, stack in _stacks.items()
        if stack.get("StackId") != own
        and not stack.get("StackStatus", "").startswith("DELETE_COMPLETE")
        and export in handlers._imported_export_names(stack, name)
    ]
