"""Values of a synthesized template, with what CloudFormation would put in: exports and the stack's own resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Unresolved(Exception):
    """A value refers to what does not stand yet; the message names it."""


@dataclass(frozen=True)
class Resolver:
    """What stands.

    Attributes:
        exports: values by export name.
        physical_ids: of the stack's own resources, by logical id.
        pseudo: pseudo parameters, by name (AWS::Region ...).
    """

    exports: Mapping[str, str]
    physical_ids: Mapping[str, str]
    pseudo: Mapping[str, str]

    def resolve(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """`value` without intrinsic functions.

        Raises:
            Unresolved: something that it refers to does not stand.
        """
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument)
        return {key: self.resolve(item) for key, item in value.items()}

    def _call(self, function: str, argument: Any) -> str:  # noqa: ANN401 - JSON
        if function == "Ref":
            found = self.pseudo.get(argument) or self.physical_ids.get(argument)
            if found is None:
                raise Unresolved(f"the resource {argument}")
            return found
        if function == "Fn::ImportValue" and isinstance(argument, str):
            if argument not in self.exports:
                raise Unresolved(f"the export {argument}")
            return self.exports[argument]
        if function == "Fn::Join":
            delimiter, items = argument
            return str(delimiter).join(str(item) for item in self.resolve(items))
        raise Unresolved(f"{function} of {argument}")
