"""Values of a synthesized template, with what CloudFormation would put in: exports and the stack's own resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ops import intrinsics


class Unresolved(Exception):
    """A value refers to something that is not deployed yet; the message names it."""


class Resolver(intrinsics.Resolver):
    """Resolves values, or raises Unresolved.

    Args:
        exports: values by export name.
        physical_ids: of the stack's own resources, by logical id.
        pseudo: pseudo parameters, by name (AWS::Region ...).
    """

    def __init__(self, exports: Mapping[str, str], physical_ids: Mapping[str, str], pseudo: Mapping[str, str]) -> None:
        self._exports = exports
        self._known = {**physical_ids, **pseudo}

    def reference(self, name: str) -> str:
        if not self._known.get(name):
            raise Unresolved(f"the resource {name}")
        return self._known[name]

    def attribute(self, logical_id: str, name: str) -> NoReturn:
        raise Unresolved(f"Fn::GetAtt of {logical_id}.{name}")

    def imported(self, export: str) -> str:
        if export not in self._exports:
            raise Unresolved(f"the export {export}")
        return self._exports[export]

    def unresolved(self, function: str, argument: Any) -> NoReturn:  # noqa: ANN401 - JSON
        raise Unresolved(f"{function} of {argument}")
