"""A validation with every chart, from genuine outputs of nccl-tests and a tournament."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

from cluster_assets.jobs.lib import nccl_verdict, s3_speed
from cluster_assets.jobs.lib.tournament import Tournament
from ops.validation import judge, plan
from ops.validation.plan import Job, Place
from ops.validation.report import Line, Report
from tests.ops.validation.fakes import ended, results

OUTPUTS = sorted((Path(__file__).parents[2] / "jobs" / "nccl").glob("nvlink-*.txt"))
SLOW = "gpu-st-p5-3"


def of_nccl(folder: Path) -> dict[str, object]:
    """The head node's answer on the outputs."""
    nccl_verdict.main(
        ["--nodes=1", "--instance-type=p5.48xlarge", f"--json={folder / 'verdict.json'}", *map(str, OUTPUTS)]
    )
    found: dict[str, object] = results.of("nccl-tests", folder, "")
    return found


def of_pairs(folder: Path, nodes: int = 12, *, simulated: bool = False) -> dict[str, object]:
    """The head node's answer on a tournament in which one node is slow."""
    names, noise = [f"gpu-st-p5-{number}" for number in range(1, nodes + 1)], random.Random(1)  # noqa: S311 - noise
    tournament = Tournament(names)
    while pairs := tournament.next_pairs():
        rates = {pair: 48 * noise.gauss(1, 0.01) * (0.7 if names.index(SLOW) in pair else 1) for pair in pairs}
        tournament.add(rates)
    verdict = tournament.verdict()
    faults = [vars(fault) for fault in verdict["faults"]]
    figures = [[*pair, rate] for one in tournament.rounds for pair, rate in one.items()]
    verdict |= {"faults": faults, "figures": figures, "measure": "nccl-tests", "simulated": simulated}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    (folder / "nodes").write_text("\n".join(names))
    found: dict[str, object] = results.of("pair-test", folder, "")
    return found


def of_storage() -> list[dict[str, object]]:
    rates = {"write": 9123.4, "read": 11876.5}
    one = {"mount": "/fsx", "passed": True, "simulated": False, "provisioned_mb_s": 12000, "target_mb_s": 12000.0}
    steps = [
        {"nodes": n, "mb_s": {key: rate * share for key, rate in rates.items()}}
        for n, share in ((1, 0.3), (6, 0.9), (12, 1))
    ]
    limits = [f"{key}: the file system's limit is reached by 6 of 12 nodes" for key in rates]
    return [{**one, "mb_s": rates, "steps": steps, "scaling": limits, "faults": []}]


def of_s3(folder: Path, nodes: int = 12) -> dict[str, object]:
    """The head node's answer on S3, with one slow node."""
    names, noise = [f"gpu-st-p5-{number}" for number in range(1, nodes + 1)], random.Random(2)  # noqa: S311 - noise
    rates = {name: 0.6 if name == SLOW else round(noise.uniform(1.6, 2.3), 2) for name in names}
    verdict = s3_speed.judge({name: {"write": rate, "read": round(rate * 1.2, 2)} for name, rate in rates.items()})
    (folder / "verdict.json").write_text(json.dumps(verdict))
    found: dict[str, object] = results.of("s3-test", folder, "")
    return found


def sample(folder: Path, *, simulated: bool = False) -> Report:
    """The report."""
    place = Place("gpu", "gpu/p5", 12, 8, most=12)
    storage = Job(plan.STORAGE, place, mount="/fsx", mb_s=12000, percent=70)
    pairs = Job(plan.PAIRS, place, ("--measure", "nccl"))
    answers = [
        (Job(plan.HELLO, place), {f"gpu-st-p5-{number}": 8 - (number == 3) for number in range(1, 13)}),
        (pairs, of_pairs(folder, simulated=simulated)),
        (Job(plan.NCCL, replace(place, nodes=1)), of_nccl(folder)),
        (storage, of_storage()),
        (Job(plan.S3, place), of_s3(folder)),
    ]
    lines: list[Line] = []
    for job, result in answers:
        lines += judge.ended(job, ended(result=result), emulated=simulated)
    return Report("jakarta", "jakarta", "i-0123456789abcdef0", tuple(lines), simulated)
