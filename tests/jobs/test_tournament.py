"""Slow nodes, links and groups of nodes are found by the tournament, in simulated clusters with noise."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.validation.plan import PAIRS, Job, Place
from tests.jobs.conftest import JOBS, load_module

tournament = load_module(JOBS / "lib" / "tournament.py")
SIGMA = 0.02
"""Relative standard deviation of a pair's figures. No public source has measured it; docs/unproven.md."""
GB_S = 50.0
_RANDOM = random.Random
SIZES = (6, 7, 8, 9, 12, 16, 17, 24, 31, 40, 80, 128)
Rate = Callable[[int, int], float]


def play(
    nodes: int,
    rate: Rate = lambda _one, _other: 1.0,
    *,
    seed: int = 1,
    sigma: float = SIGMA,
    gone: Callable[[int, int], bool] = lambda _node, _round: False,
) -> dict[str, Any]:
    """The verdict on a cluster. `rate` is a pair's share of GB_S; a node that is gone in a round does not answer."""
    noise = _RANDOM(seed)
    games = tournament.Tournament([f"n{number}" for number in range(nodes)])
    while pairs := games.next_pairs():
        number = len(games.rounds)
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs), "a node is in two pairs at once"
        silent = {pair for pair in pairs if any(gone(node, number) for node in pair)}
        figures = {pair: GB_S * rate(*pair) * math.exp(noise.gauss(0, sigma)) for pair in pairs}
        games.add({pair: None if pair in silent else figure for pair, figure in figures.items()})
    assert len(games.rounds) <= 2 * math.log2(nodes)
    verdict: dict[str, Any] = games.verdict()
    return verdict


def faults(verdict: dict[str, Any]) -> list[tuple[str, frozenset[int]]]:
    """Kind and nodes of what was found."""
    return sorted(((one.kind, frozenset(int(name[1:]) for name in one.nodes)) for one in verdict["faults"]), key=str)


def expected(*wanted: tuple[str, set[int]]) -> list[tuple[str, frozenset[int]]]:
    return sorted(((kind, frozenset(nodes)) for kind, nodes in wanted), key=str)


def slow_nodes(shares: dict[int, float]) -> Rate:
    return lambda one, other: min(shares.get(one, 1.0), shares.get(other, 1.0))


def across(group: set[int], share: float) -> Rate:
    """A group whose way to all others is slow."""
    return lambda one, other: share if (one in group) != (other in group) else 1.0


@pytest.mark.parametrize("sizes", [(3, 4, 5), SIZES, (1000,)], ids=["few", "many", "1000"])
def test_no_false_accusation(sizes: tuple[int, ...]) -> None:
    """1,000 runs without faults."""
    runs = {3: 300, 12: 676, 1: 24}[len(sizes)]
    for seed in range(runs):
        nodes = sizes[seed % len(sizes)]
        verdict = play(nodes, seed=seed)
        assert verdict["passed"] and not verdict["faults"], (seed, nodes, verdict)


def test_few_rounds_where_nothing_is_slow() -> None:
    assert [play(nodes)["rounds"] for nodes in (3, 4, 8, 16, 80, 1000)] == [3, 3, 3, 4, 6, 9]


@pytest.mark.parametrize("nodes", [3, 4, 5, *SIZES, 1000])
@pytest.mark.parametrize("share", [0.8, 0.5, 0.75], ids=["20 percent", "dead half", "dead NIC of four"])
def test_slow_node(nodes: int, share: float) -> None:
    for bad in {0, nodes // 3, nodes - 1}:
        verdict = play(nodes, slow_nodes({bad: share}), seed=bad)
        assert faults(verdict) == expected(("node", {bad})) and not verdict["passed"]
        [fault] = verdict["faults"]
        assert fault.found == pytest.approx(share * GB_S, rel=0.05) and fault.peers == pytest.approx(GB_S, rel=0.06)


@pytest.mark.parametrize("nodes", [*SIZES, 1000])
def test_two_slow_nodes(nodes: int) -> None:
    for seed in range(10):
        bad, worse = _RANDOM(seed).sample(range(nodes), 2)
        verdict = play(nodes, slow_nodes({bad: 0.75, worse: 0.5}), seed=seed)
        assert faults(verdict) == expected(("node", {bad}), ("node", {worse})), (nodes, seed)


@pytest.mark.parametrize("nodes", [4, 5, *SIZES, 1000])
def test_slow_pair(nodes: int) -> None:
    """A pair that the first round has: not all pairs of a large cluster are measured."""
    pair = tournament.Tournament([str(number) for number in range(nodes)]).next_pairs()[0]
    assert faults(play(nodes, lambda *given: 0.6 if given == pair else 1.0)) == expected(("link", set(pair)))


@pytest.mark.parametrize("nodes", [*SIZES, 1000])
def test_slow_leaf_switch(nodes: int) -> None:
    """Nodes that are neighbours in Slurm's order, at any place."""
    for seed in range(10):
        chance = _RANDOM(seed)
        size = chance.randint(2, (nodes - 1) // 2)
        first = chance.randrange(nodes - size + 1)
        leaf = set(range(first, first + size))
        assert faults(play(nodes, across(leaf, 0.7), seed=seed)) == expected(("group", leaf)), (nodes, seed)


def test_slow_half() -> None:
    """Which half is slow, nobody can say: one of them is named."""
    assert faults(play(16, across(set(range(8)), 0.7))) == expected(("group", set(range(8, 16))))


@pytest.mark.parametrize(
    ("nodes", "from_round"),
    [(3, 0), (4, 0), (4, 1), *((nodes, number) for nodes in (*SIZES, 1000) for number in range(3))],
)
def test_node_that_hangs_or_dies(nodes: int, from_round: int) -> None:
    bad = nodes // 3
    verdict = play(nodes, gone=lambda node, number: node == bad and number >= from_round)
    assert faults(verdict) == expected(("silent", {bad}))


def test_silent_node_and_a_slow_one_of_four() -> None:
    """Those that answer have all met but the one that rested in the round before: that is no end."""
    verdict = play(4, slow_nodes({0: 0.5}), gone=lambda node, _number: node == 1)
    assert faults(verdict) == expected(("node", {0}), ("silent", {1}))


def test_all_at_once() -> None:
    leaf = set(range(20, 30))
    verdict = play(
        80,
        lambda one, other: across(leaf, 0.7)(one, other) * slow_nodes({50: 0.5})(one, other),
        gone=lambda node, _number: node == 70,
    )
    assert faults(verdict) == expected(("group", leaf), ("node", {50}), ("silent", {70}))


@pytest.mark.parametrize("nodes", [1, 2])
def test_nothing_to_compare_with(nodes: int) -> None:
    verdict = play(nodes)
    assert not verdict["passed"] and [fault.kind for fault in verdict["faults"]] == ["undecided"]


def test_nobody_answers() -> None:
    """For example without a working MPI: one line, not one for each node."""
    [fault] = play(16, gone=lambda _node, _round: True)["faults"]
    assert (fault.kind, len(fault.nodes), tournament.described(fault)) == (
        "undecided", 16, f"not decided, in {fault.pairs} pairs",
    )  # fmt: skip


def test_noise_widens_the_margin() -> None:
    """Figures that vary much accuse nobody who is a little slower."""
    accused = 0
    for seed in range(100):
        verdict = play(80, seed=seed, sigma=0.08)
        accused += any(fault.kind != "undecided" for fault in verdict["faults"])
        assert verdict["margin_percent"] > 25
    assert not accused


def test_the_plan_knows_the_most_rounds() -> None:
    for nodes in (3, 8, 80, 1000):
        job = Job(PAIRS, Place("gpu", "gpu/p5", nodes, 8), ("--measure", "nccl"))
        assert job.rounds == tournament.most_rounds(nodes)
        assert job.time.startswith(f"{job.rounds} rounds of 120 s, ")


ROW = "  1073741824  134217728  float  none  -1  10738  100.0  {}  {}  10738  100.0  50.0  N/A\n"


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("pair-test: a received 1.5 GB/s\npair-test: b received 1.25 GB/s\n", 1.25),
        ("pair-test: a received 1.5 GB/s\n", None),
        (f"# nccl-tests\n{ROW.format('49.5', 0)}# Avg bus bandwidth : 49.5\n", 49.5),
        (ROW.format("49.5", 3), None),
        ("srun: error: node died\n# srun ended with status 143\n", None),
        ("", None),
    ],
    ids=["tcp", "one side", "nccl", "wrong values", "died", "no output"],
)
def test_figure_of_an_output(text: str, figure: float | None) -> None:
    assert tournament.figure_of(text) == figure


def test_slow_gpu_of_a_slow_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole of the command line: rounds, then the GPUs of the slow node, then the verdict."""
    (tmp_path / "nodes").write_text("a\nb\nc\nd\n")
    (tmp_path / "measure").write_text("nccl\n")

    def measured(folder: Path, share: float = 0.75) -> None:
        for line in (folder / "pairs").read_text().splitlines():
            rate = GB_S * (share if "c" in line.split() else 1.0)
            (folder / f"{line.replace(' ', '+')}.txt").write_text("# simulated\n" + ROW.format(rate, 0))

    while True:
        assert tournament.main(["next", str(tmp_path)]) == 0
        if not (folder := capsys.readouterr().out.strip()):
            break
        measured(Path(folder))
    assert tournament.main(["gpus", str(tmp_path), "8"]) == 0
    for line in capsys.readouterr().out.splitlines():
        number, folder = line.split()
        measured(Path(folder), 0.75 if number == "3" else 1.0)
    assert tournament.main(["verdict", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "nccl (simulated): 4 nodes" in shown
    said = "slow with all nodes: 37.5 GB/s in 3 pairs, 25 % below its peers; slow are the GPUs 3 (37.5 GB/s), or their"
    assert f"FAILED c: {said} network interfaces\n" in shown
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["simulated"] and len(verdict["figures"]) == verdict["pairs"]
    [fault] = verdict["faults"]
    assert fault["gpus"] == {"3": 37.5} and fault["text"].startswith(said)


@pytest.mark.parametrize("words", [["next", "/nonexistent"], ["other", "/"]])
def test_wrong_use(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tournament.main(words)
    assert ended.value.code == 2
