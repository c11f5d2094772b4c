"""tournament.py next|gpus|verdict RESULTS [GPUS]: which pairs of nodes to measure next, and which node or link is slow.

RESULTS has `nodes` (a name per line, in Slurm's order), `measure` (how pairs are measured) and a folder per round, with
`pairs` and one output per pair. `next` prints the folder of the next round, or nothing at the end. `gpus` prints a
number and a folder for each GPU, to measure those of slow nodes one by one. `verdict` writes verdict.json.

A pair is as fast as its slower node and the way between them. So a fast pair clears both nodes. The first rounds pair
nodes that are near and far in Slurm's order; the others answer open questions: a suspect meets nodes that were cleared,
a slow pair meets again. Fast pairs connect nodes into groups:

- one node alone: slow itself
- a group that is slow to the largest one: slow behind something that its nodes share, such as a leaf switch
- a slow pair within a group: slow between these two, on their path or at one of the interfaces that it uses

A pair that was never measured is not judged: of n (n - 1) / 2 pairs, at most n log2(n) are measured.

The standard library only, Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

MARGIN = 0.10
"""A node is slow if it is more than this share below its peers."""
NOISE_FACTOR = 4
"""The margin is at least this many standard deviations of the measured figures."""
_GROUP_NEEDS, _NODE_NEEDS, _PAIR_NEEDS = 3, 2, 2  # slow figures that an accusation needs
_ENOUGH = 20  # figures, for percentiles
_NEAR = 2  # nodes this near in Slurm's order may share a leaf switch
_SOCKETS = re.compile(r"^pair-test: \S+ received ([\d.]+) GB/s", re.MULTILINE)
_TABLE = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+(\S+)", re.MULTILINE)
Pair = tuple[int, int]
Figures = Mapping[Pair, "float | None"]
"""GB/s by pair of nodes; None: no answer."""


@dataclass
class Fault:
    """What is slow: `kind` is node, link, group, silent (no answer) or undecided.

    Attributes:
        found, peers: GB/s, of the number of `pairs` that show it; 0: no answer.
        gpus: GB/s of those GPUs of a node that are slow, by number.
        text: the same in words.
    """

    kind: str
    nodes: list[str]
    found: float
    peers: float
    pairs: int
    gpus: dict[str, float] = field(default_factory=dict)
    text: str = ""


def most_rounds(nodes: int) -> int:
    """The most rounds for a number of nodes."""
    return int(2 * math.log2(nodes)) if nodes > 1 else 0


def paired(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


@dataclass
class _Analysis:
    """What the rounds so far show."""

    centre: float
    noise: float
    threshold: float
    silent: set[int]
    best: dict[Pair, float]
    groups: list[list[int]]
    main: set[int]
    faults: list[Fault] = field(default_factory=list)
    wanted: list[Pair] = field(default_factory=list)


class Tournament:
    """Rounds of pairs of `nodes`."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes, self.rounds, self.most = nodes, list[Figures](), most_rounds(len(nodes))
        self._by_node: dict[int, list[tuple[int, float | None]]] = {one: [] for one in range(len(nodes))}
        self._of_pair: dict[Pair, list[float]] = {}

    def add(self, figures: Figures) -> None:
        """The figures of a round."""
        self.rounds.append(figures)
        for (one, other), figure in figures.items():
            self._by_node[one].append((other, figure))
            self._by_node[other].append((one, figure))
            self._of_pair.setdefault((one, other), []).append(figure or 0.0)

    def next_pairs(self) -> list[Pair]:
        """The pairs of the next round; none: the tournament is over."""
        size, number = len(self.nodes), len(self.rounds)
        if number < min(max(3, self.most // 2), self.most, size - 1 + size % 2):
            silent = self._silent()
            # Nothing where the nodes that answer have met, but for one that rests.
            if pairs := self._matching([one for one in range(size) if one not in silent], number):
                return pairs
        return [] if number >= self.most else self._compatible(self._analyze().wanted)

    def _matching(self, order: list[int], number: int) -> list[Pair]:
        """All nodes in pairs that have not met, far apart in even rounds, near in odd ones; one may rest."""
        step = number // 2
        if len(order) % 2:
            order = [*order]
            del order[(len(order) - 1 - number) % len(order)]
        distance = 1 << step if number % 2 else max(1, len(order) // 2 >> step)
        free = dict.fromkeys(order)
        found = []

        def meet(one: int, others: Iterable[int]) -> None:
            for other in others:
                if other != one and one in free and other in free and paired(one, other) not in self._of_pair:
                    del free[one], free[other]
                    found.append(paired(one, other))

        for place, one in enumerate(order):
            meet(one, [order[(place + distance) % len(order)]])
        for one in list(free):
            meet(one, list(free))
        return found

    @staticmethod
    def _compatible(wanted: Iterable[Pair]) -> list[Pair]:
        busy: set[int] = set()
        found = []
        for pair in wanted:
            if busy.isdisjoint(pair):
                busy.update(pair)
                found.append(pair)
        return found

    def _trail(self, one: int) -> list[int]:
        """The nodes to which a node did not answer since its last answer."""
        trail = []
        for other, figure in reversed(self._by_node[one]):
            if figure is not None:
                break
            trail.append(other)
        return trail

    def _silent(self) -> set[int]:
        """Nodes that lately did not answer two others, which answer everyone else."""
        quiet = {one: set(trail) for one in self._by_node if (trail := self._trail(one))}
        return {
            one
            for one, trail in quiet.items()
            if sum(quiet.get(other, {one}) == {one} for other in trail) >= _NODE_NEEDS
        }

    def _scale(self) -> tuple[float, float]:
        """The centre of the figures of good pairs, and their relative standard deviation."""
        figures = sorted(figure for one in self.rounds for figure in one.values() if figure)
        if not figures:
            return 0.0, 0.0
        # The 95th and the 75th percentile of a normal distribution are 0.97 standard deviations apart. Faults do not
        # widen that: they change slower figures, if there are enough.
        last = len(figures) - 1
        enough = last >= _ENOUGH
        spread = math.log(figures[round(0.95 * last)] / figures[round(0.75 * last)]) / 0.97 if enough else 0.0
        # A node that met slow nodes only is among the slower ones; the fastest quarter is not.
        tops = sorted(max((figure or 0.0 for _, figure in met), default=0.0) for met in self._by_node.values())
        least = tops[3 * len(tops) // 4] * math.exp(-max(0.16, NOISE_FACTOR * spread))
        good = [figure for figure in figures if figure >= least]
        centre = median(good)
        return centre, max(spread, 1.4826 * median([abs(math.log(figure / centre)) for figure in good]))

    def _analyze(self) -> _Analysis:
        """Everything that the figures show, and what they leave open."""
        centre, noise = self._scale()
        silent = self._silent()
        best = {pair: max(figures) for pair, figures in self._of_pair.items() if silent.isdisjoint(pair)}
        threshold = centre * (1 - max(MARGIN, NOISE_FACTOR * noise))
        alive = [one for one in self._by_node if one not in silent]
        groups = connected(alive, (pair for pair, figure in best.items() if figure and figure >= threshold))
        analysis = _Analysis(centre, noise, threshold, silent, best, groups, set(groups[0]) if groups else set())
        for one in sorted(silent):
            self._accuse(analysis, "silent", [one], [0.0] * len(self._trail(one)))
        self._unanswered(analysis)
        for group in groups[1:]:
            (self._alone if len(group) == 1 else self._group)(group, analysis)
        self._within(analysis)
        return analysis

    def _accuse(self, analysis: _Analysis, kind: str, nodes: Iterable[int], figures: Sequence[float]) -> None:
        found = rounded(median(figures)) if figures else 0.0
        analysis.faults.append(
            Fault(kind, [self.nodes[one] for one in nodes], found, rounded(analysis.centre), len(figures))
        )

    def _to_main(self, nodes: Iterable[int], analysis: _Analysis) -> list[float]:
        """The figures of pairs of these nodes with nodes of the largest group."""
        return [
            analysis.best[paired(one, other)]
            for one in nodes
            for other in {other for other, _ in self._by_node[one]}
            if other in analysis.main and paired(one, other) in analysis.best
        ]

    def _untried(self, one: int, others: Iterable[int]) -> list[int]:
        """Others that a node has not met, the nearest first."""
        untried = (other for other in others if paired(one, other) not in self._of_pair)
        return sorted(untried, key=lambda other: abs(other - one))

    def _ask(self, analysis: _Analysis, one: int, others: Iterable[int]) -> None:
        analysis.wanted += [paired(one, other) for other in others]

    def _unanswered(self, analysis: _Analysis) -> None:
        """Nodes whose last partner did not answer."""
        trails = {
            one: trail for one in sorted(analysis.main) if (trail := analysis.main.intersection(self._trail(one)))
        }
        for one, trail in trails.items():
            answering = [other for other in analysis.main if other not in trails]
            self._ask(analysis, one, self._untried(one, answering) + answering)
            self._accuse(analysis, "undecided", [one], [0.0] * len(trail))

    def _alone(self, group: list[int], analysis: _Analysis) -> None:
        """A node without a fast pair."""
        [one] = group
        figures = self._to_main(group, analysis)
        rest = [other for other in self._by_node if other not in analysis.main and other not in analysis.silent]
        near = [other for other in self._untried(one, rest) if 0 < abs(other - one) <= _NEAR]
        self._ask(analysis, one, near)
        known = len(figures) >= _NODE_NEEDS
        if not known:
            self._ask(analysis, one, self._untried(one, analysis.main))
        for others in analysis.groups[1:4]:
            # It may belong to a group of which it has met nobody.
            if len(others) > 1 and not any(paired(one, other) in analysis.best for other in others):
                self._ask(analysis, one, self._untried(one, others))
                known = False
        self._accuse(analysis, ("node" if any(figures) else "silent") if known else "undecided", group, figures)

    def _group(self, group: list[int], analysis: _Analysis) -> None:
        """Nodes that are fast among each other, with no fast pair to the largest group."""
        figures = self._to_main(group, analysis)
        for other in analysis.groups[analysis.groups.index(group) + 1 :]:
            met = sum(paired(one, another) in analysis.best for one in group for another in other)
            if len(other) > 1 and met < _PAIR_NEEDS:
                for one in group:
                    self._ask(analysis, one, self._untried(one, other))
        known = len(figures) >= _GROUP_NEEDS
        for one in [] if known else group:
            self._ask(analysis, one, self._untried(one, analysis.main))
        if figures:
            self._accuse(analysis, "group" if known else "undecided", group, figures)

    def _within(self, analysis: _Analysis) -> None:
        """Slow pairs within a group: of one node that is slow with most others, or of a link."""
        number_of = {one: number for number, group in enumerate(analysis.groups) for one in group}
        slow = [
            pair
            for pair, figure in analysis.best.items()
            if figure < analysis.threshold and number_of[pair[0]] == number_of[pair[1]]
        ]
        often = {one for one, count in Counter(one for pair in slow for one in pair).items() if count >= _NODE_NEEDS}
        bad = set()
        for one in sorted(often & analysis.main):
            figures = self._to_main([one], analysis)
            if median(figures) < analysis.threshold:
                bad.add(one)
                self._accuse(analysis, "node", [one], figures)
        for pair in slow:
            if bad.isdisjoint(pair):
                figures = self._of_pair[pair]
                known = len(figures) >= _PAIR_NEEDS
                self._accuse(analysis, "link" if known else "undecided", pair, figures)
                analysis.wanted += [] if known else [pair]

    def partners(self) -> list[tuple[str, str]]:
        """Slow nodes, each with a node that is fast."""
        analysis = self._analyze()
        slow = [fault.nodes[0] for fault in analysis.faults if fault.kind == "node"]
        faulty = {name for fault in analysis.faults for name in fault.nodes}
        good = [self.nodes[one] for one in sorted(analysis.main) if self.nodes[one] not in faulty]
        return [(name, good[place]) for place, name in enumerate(slow[: len(good)])]

    def verdict(self) -> dict[str, Any]:
        """The verdict, with the figures."""
        analysis, nodes = self._analyze(), len(self.nodes)
        if nodes < 3 or not analysis.centre:
            analysis.faults = []
            self._accuse(analysis, "undecided", range(nodes), [analysis.centre] * len(self._of_pair))
        return {
            "passed": not analysis.faults, "nodes": nodes, "rounds": len(self.rounds), "most_rounds": self.most,
            "pairs": len(self._of_pair), "peers": rounded(analysis.centre),
            "noise_percent": round(100 * analysis.noise, 2),
            "margin_percent": round(100 * max(MARGIN, NOISE_FACTOR * analysis.noise), 1),
            "faults": sorted(analysis.faults, key=lambda fault: fault.kind == "undecided"),
        }  # fmt: skip


def rounded(figure: float) -> float:
    return float(f"{figure:.4g}")


def connected(nodes: Iterable[int], pairs: Iterable[Pair]) -> list[list[int]]:
    """The groups of nodes that pairs connect, the largest first."""
    parent = {one: one for one in nodes}

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = one = parent[parent[one]]
        return one

    for one, other in pairs:
        parent[root(one)] = root(other)
    groups: dict[int, list[int]] = {}
    for one in sorted(parent):
        groups.setdefault(root(one), []).append(one)
    return sorted(groups.values(), key=lambda group: (-len(group), group))


SHOWN = {
    "node": "slow with all nodes",
    "link": "slow with each other only",
    "group": "slow to all others, fast among each other",
    "silent": "no answer, or wrong values",
    "undecided": "not decided",
}


def figure_of(text: str) -> float | None:
    """GB/s of a pair's output; None: it has no figure, or nccl-tests found wrong values."""
    received = [float(rate) for rate in _SOCKETS.findall(text)]
    if received:
        return min(received) if len(received) == 2 else None
    rows = _TABLE.findall(text)
    return float(rows[-1][0]) if rows and rows[-1][1] in ("0", "N/A") else None


def read_round(folder: Path, number_of: Mapping[str, int]) -> dict[Pair, float | None]:
    """The figures of a round's folder."""
    figures: dict[Pair, float | None] = {}
    for line in (folder / "pairs").read_text().splitlines():
        first, second = line.split()
        output = folder / f"{first}+{second}.txt"
        text = output.read_text(errors="replace") if output.is_file() else ""
        figures[number_of[first], number_of[second]] = figure_of(text)
    return figures


def load(results: Path) -> Tournament:
    """The tournament of a folder, with the rounds so far."""
    tournament = Tournament((results / "nodes").read_text().split())
    number_of = {name: number for number, name in enumerate(tournament.nodes)}
    for folder in sorted(results.glob("round-*")):
        tournament.add(read_round(folder, number_of))
    return tournament


def write_pairs(folder: Path, pairs: Iterable[Sequence[str]]) -> None:
    folder.mkdir()
    (folder / "pairs").write_text("".join(f"{one} {other}\n" for one, other in pairs))


def write_gpu_pairs(results: Path, gpus: int) -> Iterator[tuple[int, Path]]:
    """Write a folder per GPU: each slow node with a good one."""
    tournament = load(results)
    pairs = tournament.partners()
    for number in range(gpus if pairs else 0):
        folder = results / f"gpu-{number}"
        write_pairs(folder, pairs)
        yield number, folder


def add_gpus(results: Path, tournament: Tournament, faults: Sequence[Fault]) -> None:
    """The slow GPUs of slow nodes."""
    names = {name: number for number, name in enumerate(tournament.nodes)}
    found = {int(folder.name[4:]): read_round(folder, names) for folder in results.glob("gpu-*")}
    figures = [figure for one in found.values() for figure in one.values() if figure]
    if not figures:
        return
    # The fastest GPU of all slow nodes is as fast as it should be, or all are slow alike.
    least = max(figures) * (1 - MARGIN)
    for fault in faults:
        one = names[fault.nodes[0]]
        for number, of_gpu in sorted(found.items()):
            for pair, figure in of_gpu.items():
                if fault.kind == "node" and one in pair and (figure or 0.0) < least:
                    fault.gpus[str(number)] = rounded(figure or 0.0)


def described(fault: Fault) -> str:
    """A fault in words, without its nodes."""
    if not fault.found:
        return f"{SHOWN[fault.kind]}, in {fault.pairs} pairs"
    below = 100 * (1 - fault.found / fault.peers)
    text = f"{SHOWN[fault.kind]}: {fault.found:.3g} GB/s in {fault.pairs} pairs, {below:.0f} % below its peers"
    gpus = ", ".join(f"{number} ({rate:.3g} GB/s)" for number, rate in fault.gpus.items())
    return text + (f"; slow are the GPUs {gpus}, or their network interfaces" if gpus else "")


def write_verdict(results: Path) -> bool:
    """Write verdict.json and print it; whether it passed."""
    tournament = load(results)
    verdict = tournament.verdict()
    add_gpus(results, tournament, verdict["faults"])
    for fault in verdict["faults"]:
        fault.text = described(fault)
    measure = (results / "measure").read_text().strip()
    outputs = results.glob("round-*/*.txt")
    verdict["simulated"] = any("# simulated" in path.read_text(errors="replace")[:200] for path in outputs)
    verdict["measure"] = measure
    figures = [[*pair, figure] for one in tournament.rounds for pair, figure in one.items()]
    written = {**verdict, "faults": [asdict(fault) for fault in verdict["faults"]], "figures": figures}
    (results / "verdict.json").write_text(json.dumps(written, indent=1) + "\n")
    simulated = " (simulated)" if verdict["simulated"] else ""
    print(
        f"{measure}{simulated}: {verdict['nodes']} nodes, {verdict['pairs']} pairs in {verdict['rounds']} of at most "
        f"{verdict['most_rounds']} rounds; {verdict['peers']:.3g} GB/s is usual, noise {verdict['noise_percent']} %"
    )
    if verdict["nodes"] < 3:
        print(f"FAILED: {verdict['nodes']} nodes have no peers to compare them with: give --nodes 3 or more")
    for fault in verdict["faults"]:
        print(f"FAILED {' '.join(fault.nodes)}: {fault.text}")
    return bool(verdict["passed"])


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="tournament.py", description="Find the slow node in measured pairs.")
    parser.add_argument("step", choices=("next", "gpus", "verdict"))
    parser.add_argument("results", type=Path)
    parser.add_argument("gpus", type=int, nargs="?", default=0)
    options = parser.parse_args(arguments)
    try:
        if options.step == "verdict":
            return 0 if write_verdict(options.results) else 1
        if options.step == "gpus":
            for number, folder in write_gpu_pairs(options.results, options.gpus):
                print(number, folder)
            return 0
        tournament = load(options.results)
        if pairs := tournament.next_pairs():
            folder = options.results / f"round-{len(tournament.rounds) + 1:02}"
            write_pairs(folder, ((tournament.nodes[one], tournament.nodes[other]) for one, other in pairs))
            print(folder)
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
