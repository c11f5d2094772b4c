"""The collectives through torch, with gloo on CPUs: three ranks on this machine, judged by nccl_verdict.py."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.jobs.conftest import JOBS, load_module

# It needs the laboratory's PyTorch.
pytestmark = pytest.mark.lab
PROGRAM = JOBS / "lib" / "torch_collectives.py"
RANKS = 3
# doc/PERFORMANCE.md of nccl-tests: bus bandwidth / algorithm bandwidth of three ranks.
PARTS = ("all_gather", "reduce_scatter", "alltoall")
FACTORS = {
    "all_reduce": 4 / 3,
    "all_gather": 2 / 3,
    "broadcast": 1,
    "reduce": 1,
    "reduce_scatter": 2 / 3,
    "alltoall": 2 / 3,
}
# Everything in one process per rank. The second time the first rank, which is also the root, gets one wrong value.
# A port each time: a rank that is ahead would still find the first rank's rendezvous of the time before.
DRIVER = """
import os, sys, torch_collectives as program
shown, genuine = sys.stdout, program.Collective.call
ports = os.environ["PORTS"].split()

def damaged(self, count, start=0):
    call = genuine(self, count, start)
    def run():
        call()
        if self.rank == 0:
            self.result[start + 1] += 1
    return run

for call in (genuine, damaged):
    program.Collective.call = call
    for name in program.KINDS:
        sys.stdout = shown
        os.environ["MASTER_PORT"] = ports.pop()
        status = program.main([name, *sys.argv[1:]])
        print(f"{name} {status} {program.KINDS[name].factor(3)}", file=sys.stderr)
"""
judging = load_module(JOBS / "lib" / "nccl_verdict.py")


@pytest.fixture(scope="module")
def tables(torch_folder: Path) -> list[str]:
    """The first rank's tables: right ones of all collectives, then those with a wrong value."""
    with ExitStack() as probes:
        free = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * len(FACTORS))]
        ports = " ".join(str(one.getsockname()[1]) for one in free)
    common = {"PYTHONPATH": f"{torch_folder}:{PROGRAM.parent}", "OMP_NUM_THREADS": "1", "SLURM_NTASKS": str(RANKS)}
    common |= {"MASTER_ADDR": "127.0.0.1", "PORTS": ports}
    line = [sys.executable, "-c", DRIVER, "-b", "8", "-e", "64K", "-n", "2", "-g", "1", "--backend", "gloo"]
    ranks = [
        subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **common, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        )
        for rank in range(RANKS)
    ]
    answers = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, answers
    for _, said in answers:
        found = [(name, int(code), float(factor)) for name, code, factor in re.findall(r"(\w+) (\d) ([\d.]+)\n", said)]
        assert found == [(name, status, factor) for status in (0, 1) for name, factor in FACTORS.items()]
    return re.split(r"(?m)^(?=# torch version )", answers[0][0])[1:]


def test_six_collectives_with_the_table_of_nccl_tests(tables: list[str]) -> None:
    for name, text in zip(FACTORS, tables, strict=False):
        found = judging.judge(text, "?", instance_type="", nodes=1, efa=False, floors=())
        assert (found.collective, found.faults) == (name, [])
        assert found.engine.startswith("torch 2.") and found.engine.endswith(" backend=gloo")
        # Three parts of a multiple of 16 bytes; a smaller message has no line.
        sizes = [size // 48 * 48 if name in PARTS else size for size in (8 << step for step in range(14))]
        assert [row.bytes for row in found.rows] == [size for size in sizes if size]
        for words in (line.split() for line in text.splitlines() if line[:1] == " "):
            here, other = (words[5:9], words[9:]) if name in PARTS else (words[9:], words[5:9])
            assert other == ["N/A"] * 4 and here[3] == "0"
            assert int(words[1]) * 4 * (RANKS if name in PARTS else 1) == int(words[0])
            assert float(here[1]) == pytest.approx(int(words[0]) / float(here[0]) / 1e3, abs=0.006)
            assert float(here[2]) == pytest.approx(float(here[1]) * FACTORS[name], abs=0.012)


def test_a_wrong_value_is_found(tables: list[str]) -> None:
    for name, text in zip(FACTORS, tables[len(FACTORS) :], strict=True):
        found = judging.judge(text, name, instance_type="", nodes=1, efa=False, floors=())
        assert {row.wrong for row in found.rows} == {1}
        first = "48 B" if name in PARTS else "8 B"
        assert found.faults == [f"{len(found.rows)} wrong values, first at {first}: data was damaged"]


def started(torch_folder: Path, *line: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """One process, without the variables of Slurm but those that are given."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")} | more
    env["PYTHONPATH"] = f"{torch_folder}:{PROGRAM.parent}"
    return subprocess.run([sys.executable, *line], capture_output=True, text=True, check=False, env=env)


OF_SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (["-e", "4 GB"], {}, "argument -e: invalid size value: '4 GB'"),
        ([], {}, "nccl-tests.sbatch starts this program with srun, MASTER_ADDR and MASTER_PORT: 'SLURM_PROCID'"),
        ([], OF_SLURM | {"MASTER_PORT": "10000"}, "torch sees 0 GPUs, and process 0 of this node"),
    ],
)
def test_what_cannot_start(torch_folder: Path, words: list[str], env: dict[str, str], says: str) -> None:
    done = started(torch_folder, PROGRAM, "alltoall", *words, **env)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_a_rank_that_does_not_start_ends_the_others(torch_folder: Path) -> None:
    program = "import sys, torch_collectives as program; program._START /= 300; "
    program += "sys.exit(program.main(['alltoall', '--backend', 'gloo']))"
    done = started(torch_folder, "-c", program, **OF_SLURM, MASTER_PORT="0")
    assert done.returncode == 1 and "rank 0: not all 2 ranks met at 127.0.0.1:0" in done.stderr
    assert done.stdout.startswith("#  Rank 0 on ")
