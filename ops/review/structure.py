"""Differences of JSON structures, by the path of keys that leads to each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from typing import Final

IDENTITIES = ("Name", "Key", "Sid", "LogicalId")
WIDTH = 160
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


def shown(value: object, width: int = WIDTH) -> str:
    """A value in one line of at most `width` characters."""
    if value is ABSENT or value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def differences(old: object, new: object, path: str = "") -> Iterator[Difference]:
    """Every key that differs. Items of lists are matched by their name where they have one, else by what they hold."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)
    elif old != new or isinstance(old, bool) is not isinstance(new, bool):
        yield Difference(path, old, new)


def _of_lists(old: Sequence[object], new: Sequence[object], path: str) -> Iterator[Difference]:
    identity = next((key for key in IDENTITIES if _identified(old, key) and _identified(new, key)), None)
    if identity:
        named_old, named_new = _by(old, identity), _by(new, identity)
        for name in dict.fromkeys([*named_old, *named_new]):
            yield from differences(named_old.get(name, ABSENT), named_new.get(name, ABSENT), f"{path}[{name}]")
        return
    texts_old, texts_new = [_text(item) for item in old], [_text(item) for item in new]
    for kind, i, j, k, m in SequenceMatcher(a=texts_old, b=texts_new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for offset in range(max(j - i, m - k)):
            there = old[i + offset] if i + offset < j else ABSENT
            here = new[k + offset] if k + offset < m else ABSENT
            index = k + offset if here is not ABSENT else i + offset
            yield from differences(there, here, f"{path}[{index}]")


def _identified(items: Sequence[object], key: str) -> bool:
    names = [item[key] for item in items if isinstance(item, Mapping) and isinstance(item.get(key), str)]
    return len(names) == len(items) == len(set(names))


def _by(items: Sequence[object], key: str) -> dict[str, object]:
    return {str(item[key]): item for item in items if isinstance(item, Mapping)}


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
