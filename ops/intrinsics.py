"""Resolves the intrinsic functions of CloudFormation templates."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Final

_NO_VALUE = {"Ref": "AWS::NoValue"}
_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")


class _Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN: Final = _Unknown.UNKNOWN
"""A value that only AWS knows. What is joined from one is UNKNOWN as well."""


class Resolver(ABC):
    """Replaces intrinsic functions by their values, at any depth. Subclasses look references up.

    Attributes:
        symbolic: the values of references are names, which Fn::Split and Fn::Select cannot take apart.
    """

    symbolic: ClassVar[bool] = False

    @abstractmethod
    def reference(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """The value of Ref, of a resource, a parameter or a pseudo parameter."""

    @abstractmethod
    def attribute(self, logical_id: str, name: str) -> Any:  # noqa: ANN401 - JSON
        """The value of Fn::GetAtt."""

    @abstractmethod
    def imported(self, export: str) -> Any:  # noqa: ANN401 - JSON
        """The value of Fn::ImportValue."""

    def unresolved(self, function: str, argument: Any) -> Any:  # noqa: ANN401, ARG002 - JSON
        """The value of a call that cannot be resolved."""
        return UNKNOWN

    def resolve(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """`value` without intrinsic functions, and without keys whose value is AWS::NoValue."""
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(function, argument)
        return {key: self.resolve(item) for key, item in value.items() if item != _NO_VALUE}

    def _call(self, function: str, argument: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON; one return for each function
        match function, argument:
            case "Ref", str(name):
                return self.reference(name)
            case "Fn::GetAtt", str(path):
                logical_id, _, attribute = path.partition(".")
                return self.attribute(logical_id, attribute)
            case "Fn::GetAtt", [logical_id, attribute]:
                return self.attribute(logical_id, str(attribute))
            case "Fn::ImportValue", str(name):
                return self.imported(name)
            case "Fn::Sub", str(text):
                return self._substituted(text)
            case "Fn::Join", [delimiter, items] if isinstance(found := self.resolve(items), list):
                return _joined(str(delimiter), found)
            case "Fn::Split", [delimiter, item] if not self.symbolic and isinstance(found := self.resolve(item), str):
                return found.split(delimiter)
            case "Fn::Select", [index, items] if not self.symbolic and isinstance(found := self.resolve(items), list):
                return found[int(index)] if int(index) < len(found) else UNKNOWN
        return self.unresolved(function, argument)

    def _substituted(self, text: str) -> Any:  # noqa: ANN401 - JSON
        literal, *rest = _PLACEHOLDER.split(text)
        parts: list[Any] = [literal]
        for escaped, name, literal in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            logical_id, dot, attribute = name.partition(".")
            if escaped:
                value: Any = f"${{{name}}}"
            else:
                value = self.attribute(logical_id, attribute) if dot else self.reference(name)
            parts += [value, literal]
        return _joined("", parts)


def _joined(delimiter: str, items: Sequence[Any]) -> Any:  # noqa: ANN401 - JSON
    if any(isinstance(item, (_Unknown, list, dict)) for item in items):
        return UNKNOWN
    return delimiter.join(str(item) for item in items)
