"""Differences of JSON structures, by the path of keys that leads to each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from itertools import zip_longest
from typing import Any, Final

_IDENTITIES = ("Name", "Key", "Sid", "LogicalId")
_WIDTH = 160
"""Characters of a value that are shown."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""The value of a key that is not there."""


@dataclass(frozen=True)
class Difference:
    """One key. `old` is ABSENT where it was added, `new` where it was removed."""

    path: str
    old: object
    new: object

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.old)} -> {shown(self.new)}"


def shown(value: object) -> str:
    """A value in one line of at most `_WIDTH` characters."""
    if value is ABSENT or value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."


def differences(old: object, new: object, path: str = "") -> Iterator[Difference]:
    """Every key that differs. Items of lists are matched by their name where they have one, else by what they hold."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)
    elif old != new or isinstance(old, bool) is not isinstance(new, bool):
        yield Difference(path, old, new)


def _of_lists(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[Difference]:
    identity = next((key for key in _IDENTITIES if _identified(old, key) and _identified(new, key)), None)
    if identity:
        there, here = ({item[identity]: item for item in items} for items in (old, new))
        for name in dict.fromkeys([*there, *here]):
            yield from differences(there.get(name, ABSENT), here.get(name, ABSENT), f"{path}[{name}]")
        return
    texts = [[json.dumps(item, sort_keys=True) for item in items] for items in (old, new)]
    for kind, i, j, k, m in SequenceMatcher(a=texts[0], b=texts[1], autojunk=False).get_opcodes():
        if kind != "equal":
            for offset, (was, now) in enumerate(zip_longest(old[i:j], new[k:m], fillvalue=ABSENT)):
                index = i + offset if now is ABSENT else k + offset
                yield from differences(was, now, f"{path}[{index}]")


def _identified(items: Sequence[Any], key: str) -> bool:
    names = [item[key] for item in items if isinstance(item, Mapping) and isinstance(item.get(key), str)]
    return len(names) == len(items) == len(set(names))
