"""Reads PyTorch's flight recorders: which ranks did not arrive at a collective that others wait in.

A dump (PyTorch 2.5 to 2.13, NCCL and gloo) is a pickle of plain values: `entries` has the last collectives of a rank,
each with its process group, its number in the group (collective_seq_id) and its state. The standard library only,
Python 3.9 or later.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class _Plain(pickle.Unpickler):
    """Loads values only: a pickle could otherwise call any function."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 -- as the base class
        raise pickle.UnpicklingError(f"{module}.{name} in a flight recorder")


class Collective(NamedTuple):
    """An entry of a dump."""

    group: tuple[str, str]
    number: int
    name: str
    waits: bool


def collective(entry: dict[str, Any]) -> Collective:
    """Raises what a damaged entry raises."""
    group, description = entry["process_group"]
    waits = not entry.get("retired") and entry.get("state") != "completed"
    return Collective((str(group), str(description)), int(entry["collective_seq_id"]), entry["profiling_name"], waits)


def read(path: Path) -> list[Collective]:
    """The collectives of a dump; none if it is damaged or of another form."""
    try:
        entries = _Plain(io.BytesIO(path.read_bytes())).load()["entries"]
        return [collective(one) for one in entries if "process_group" in one and not one.get("is_p2p")]
    except Exception:  # a damaged pickle raises anything
        return []


def ranges(ranks: list[int]) -> str:
    """Ranks as text: 0-3, 7."""
    groups: list[list[int]] = []
    for rank in sorted(ranks):
        if groups and rank == groups[-1][1] + 1:
            groups[-1][1] = rank
        else:
            groups.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in groups)


def late(folder: Path) -> tuple[list[str], list[int]]:
    """A line for each group that waits for ranks, and the ranks that cause it.

    A rank that waits in one group is missing in others without being the cause. So the causes are the missing ranks
    that wait nowhere, or all missing ranks if each waits somewhere.
    """
    last: dict[tuple[str, str], dict[int, Collective]] = defaultdict(dict)
    waiting = set()
    for path in sorted(folder.glob("[0-9]*")) if folder.is_dir() else []:
        if not path.name.isdigit():
            continue
        for entry in read(path):
            ranks, rank = last[entry.group], int(path.name)
            if rank not in ranks or entry.number >= ranks[rank].number:
                ranks[rank] = entry
            if entry.waits:
                waiting.add(rank)
    lines, missing = [], set()
    for (_, name), entries in sorted(last.items()):
        number = max(entry.number for entry in entries.values())
        absent = [rank for rank, entry in entries.items() if entry.number < number]
        there = {rank: entry for rank, entry in entries.items() if rank not in absent and entry.waits}
        if absent and there:
            what = next(iter(there.values())).name
            lines.append(
                f"{what} number {number} of {name or 'a group'}: ranks {ranges(list(there))} wait, "
                f"ranks {ranges(absent)} did not arrive"
            )
            missing |= set(absent)
    return lines, sorted(missing - waiting or missing)
