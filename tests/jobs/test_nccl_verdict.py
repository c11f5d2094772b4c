"""The verdict on genuine output of nccl-tests and of torch_collectives.py.

nccl/: nccl-tests 2.19.6, NCCL 2.28.9, two H200 of one host with NVLink (NVLS off), one process, 21 November 2026.
nvlink-*: as it should be. tcp-*: with NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1, so over TCP. ofi-missing-*: with
NCCL_NET=OFI and no plugin.
torch-*: torch 2.11.0, NCCL 2.28.9, two processes, otherwise the same, 22 November 2026; most of NCCL's log was removed.
slurm-*: the same programs with Open MPI 4.1.6 and PMIx 5.0.1, started by nccl-tests.sbatch under Slurm 23.11.4 (Ubuntu
24.04) as two ranks on two H200 of one host (NVLink, driver 580.159.04), 22 November 2026, also shortened. slurm-shm-*:
with NCCL_P2P_DISABLE=1, so through the host's memory. slurm-sockets-*: two nodes (network namespaces) of one GPU each.
slurm-no-plugin-*: the same nodes with the feature efa. hand-*: the programs of slurm-* started by mpirun.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import JOBS, ROOT

OUTPUTS = Path(__file__).parent / "nccl"
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall")


def verdict(
    *files: Path, nodes: int = 1, efa: bool = False, kind: str = "p5.48xlarge", tmp: Path
) -> tuple[int, dict[str, Any], str]:
    """Exit status, verdict and table. The floors of the kind two-h200 are 90 % of what the outputs show at 1 GiB."""
    measured = zip(COLLECTIVES, (328, 269, 364, 369, 271, 331), strict=True)
    common = {"instance_types": ["two-h200"], "nodes": 1, "bytes": 1 << 30, "source": "90 % of the genuine run"}
    (tmp / "floors.json").write_text(
        json.dumps({"floors": [{**common, "collective": name, "busbw": 0.9 * rate} for name, rate in measured]})
    )
    line: list[str | Path] = [sys.executable, JOBS / "lib/nccl_verdict.py", "--nodes", str(nodes)]
    line += ["--instance-type", kind, "--json", tmp / "verdict.json", *["--efa"] * efa]
    if kind == "two-h200":
        line += ["--floors", tmp / "floors.json"]
    done = subprocess.run([*line, *files], capture_output=True, text=True, check=False)
    return done.returncode, json.loads((tmp / "verdict.json").read_text()), done.stdout


def changed(text: str, tmp: Path) -> Path:
    path = tmp / "all_reduce.txt"
    path.write_text(text)
    return path


def genuine(name: str = "nvlink-all_reduce") -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


def slower(text: str, factor: float) -> str:
    """The same table with every bus bandwidth multiplied."""

    def row(line: str) -> str:
        words = line.split()
        if len(words) == 13 and words[0].isdigit():
            words[7] = f"{float(words[7]) * factor:.2f}"
        return " ".join(words)

    return "\n".join(row(line) for line in text.splitlines())


def test_six_collectives_as_they_should_be(tmp_path: Path) -> None:
    files = [OUTPUTS / f"nvlink-{name}.txt" for name in COLLECTIVES]
    status, found, table = verdict(*files, kind="two-h200", tmp=tmp_path)
    assert status == 0, table
    assert [one["collective"] for one in found["collectives"]] == list(COLLECTIVES)
    for one in found["collectives"]:
        assert len(one["rows"]) == 30
        assert one["rows"][-1]["bytes"] == 4 << 30
        assert one["floors"]
    assert found["collectives"][0]["network"] == "P2P/direct"
    assert {one["engine"] for one in found["collectives"]} == {"nccl-tests 2.19.6"}
    assert table.startswith("engine: nccl-tests 2.19.6\n")


def test_torch_measures_what_nccl_tests_does(tmp_path: Path) -> None:
    status, found, table = verdict(
        *(OUTPUTS / f"torch-{name}.txt" for name in COLLECTIVES), kind="two-h200", tmp=tmp_path
    )
    assert status == 0, table
    _, others, _ = verdict(*(OUTPUTS / f"nvlink-{name}.txt" for name in COLLECTIVES), tmp=tmp_path)
    for one, other in zip(found["collectives"], others["collectives"], strict=True):
        assert (one["collective"], one["network"]) == (other["collective"], "P2P/CUMEM")
        assert one["engine"] == "torch 2.11.0+cu130"
        ours, theirs = ({row["bytes"]: row["busbw"] for row in each["rows"]} for each in (one, other))
        for size in (64 << 20, 256 << 20, 1 << 30):
            # nvlink-* are of another day and machine.
            assert ours[size] == pytest.approx(theirs[size], rel=0.03), (one["collective"], size)


def test_a_slurm_job_measures_what_the_program_started_by_hand_does(tmp_path: Path) -> None:
    status, found, table = verdict(
        *(OUTPUTS / f"slurm-{name}.txt" for name in COLLECTIVES), kind="p5en.48xlarge", tmp=tmp_path
    )
    assert status == 0, table
    _, by_hand, _ = verdict(*(OUTPUTS / f"hand-{name}.txt" for name in COLLECTIVES), tmp=tmp_path)
    different = []
    for job, hand in zip(found["collectives"], by_hand["collectives"], strict=True):
        assert (job["collective"], job["network"]) == (hand["collective"], "P2P/CUMEM")
        ours, theirs = ({row["bytes"]: row["busbw"] for row in each["rows"]} for each in (job, hand))
        assert min(theirs) == 64 << 20 and max(theirs) == 4 << 30
        different += [
            (job["collective"], size) for size in theirs if ours[size] != pytest.approx(theirs[size], rel=0.02)
        ]
    # At these sizes two runs by hand differ as much.
    assert different == [("reduce_scatter", 4 << 30)]


@pytest.mark.parametrize(
    ("name", "asked", "network", "faults"),
    [
        ("shm", {}, "SHM/direct", ["26.9 GB/s at 128 MiB, floor 260", "26.8 GB/s at 1 GiB, floor 280"]),
        ("sockets", {"nodes": 2}, "Socket", ["NCCL fell back to TCP (NET/Socket)"]),
        ("sockets", {"nodes": 2, "efa": True}, "Socket", ["NCCL fell back to TCP (NET/Socket)"]),
        (
            "no-plugin",
            {"nodes": 2, "efa": True},
            "not shown",
            ["no table: NCCL WARN Failed to initialize any NET plugin", "the log does"],
        ),
    ],
)
def test_a_slurm_job_with_the_wrong_network(
    name: str, asked: dict[str, Any], network: str, faults: list[str], tmp_path: Path
) -> None:
    file = OUTPUTS / f"slurm-{name}-all_reduce.txt"
    status, found, _ = verdict(file, **asked, kind="p5en.48xlarge", tmp=tmp_path)
    result = found["collectives"][0]
    assert (status, result["network"], len(result["faults"])) == (1, network, len(faults))
    assert all(fault.startswith(start) for fault, start in zip(result["faults"], faults, strict=True))


@pytest.mark.parametrize(("text", "last"), [("", ""), (genuine(), " after 4 GiB")])
def test_a_hung_collective(text: str, last: str, tmp_path: Path) -> None:
    status, found, _ = verdict(changed(f"{text}# srun ended with status 124\n", tmp_path), tmp=tmp_path)
    assert status == 1
    assert found["collectives"][0]["faults"] == [
        f"hung{last}: a process, node or link does not answer; pair-test.sbatch names the node"
    ]


def test_a_slow_one_fails_at_its_size(tmp_path: Path) -> None:
    file = changed(slower(genuine(), 0.5), tmp_path)
    status, found, table = verdict(file, kind="two-h200", tmp=tmp_path)
    assert status == 1
    assert "164.0 GB/s at 1 GiB, floor 295.2: 90 % of the genuine run" in table
    assert not found["passed"]


def test_the_fall_back_to_tcp_is_caught_by_log_and_by_bandwidth(tmp_path: Path) -> None:
    status, found, _ = verdict(OUTPUTS / "tcp-all_reduce.txt", kind="two-h200", tmp=tmp_path)
    faults = found["collectives"][0]["faults"]
    assert status == 1
    assert any("fell back to TCP" in fault for fault in faults)
    assert any("4.2 GB/s at 1 GiB" in fault for fault in faults)
    _, found, _ = verdict(OUTPUTS / "torch-tcp-all_reduce.txt", tmp=tmp_path)
    assert [fault[:25] for fault in found["collectives"][0]["faults"]] == ["NCCL fell back to TCP (NE"]
    # Each by itself.
    quiet = changed(re.sub(r"(?m)^.*NCCL INFO.*\n", "", genuine("tcp-all_reduce")), tmp_path)
    assert verdict(quiet, kind="two-h200", tmp=tmp_path)[0] == 1
    fast = changed(slower(genuine("tcp-all_reduce"), 100), tmp_path)
    _, found, _ = verdict(fast, kind="two-h200", tmp=tmp_path)
    assert len(found["collectives"][0]["faults"]) == 1


def test_a_missing_plugin_fails_closed(tmp_path: Path) -> None:
    status, found, _ = verdict(OUTPUTS / "ofi-missing-all_reduce.txt", tmp=tmp_path)
    assert status == 1
    assert found["collectives"][0]["faults"] == [
        "no table: NCCL WARN Failed to initialize any NET plugin, see its output"
    ]


def test_between_nodes_socket_as_the_network_is_a_fault(tmp_path: Path) -> None:
    # On one node NCCL names Socket too, and uses NVLink.
    assert verdict(OUTPUTS / "nvlink-all_reduce.txt", tmp=tmp_path)[0] == 0
    status, found, _ = verdict(OUTPUTS / "nvlink-all_reduce.txt", nodes=2, tmp=tmp_path)
    assert status == 1
    assert "fell back to TCP" in found["collectives"][0]["faults"][0]


def test_efa_must_show_in_the_log(tmp_path: Path) -> None:
    silent = re.sub(r"(?m)^.*NCCL INFO.*\n", "", genuine())
    status, found, _ = verdict(changed(silent, tmp_path), nodes=2, efa=True, tmp=tmp_path)
    assert status == 1
    assert "does not show that NCCL used EFA" in found["collectives"][0]["faults"][0]
    plugin = "node:1:1 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)\n"
    status, found, _ = verdict(changed(plugin + silent, tmp_path), nodes=2, efa=True, tmp=tmp_path)
    assert (status, found["collectives"][0]["network"]) == (0, "OFI efa")
    stand_in = (ROOT / "local/slurm/figures/collective_perf").read_text()
    simulated = stand_in[stand_in.index("# simulated: ") :].splitlines()[0].rstrip('"')
    _, found, shown = verdict(changed(f"{simulated}\n{plugin}{silent}", tmp_path), nodes=2, efa=True, tmp=tmp_path)
    assert found["collectives"][0]["network"] == "OFI efa (simulated)"
    assert "OFI efa (simulated)" in shown


def test_wrong_values_fail(tmp_path: Path) -> None:
    text = genuine()
    row = next(line for line in text.splitlines() if line.split()[:1] == ["1048576"])
    words = row.split()
    words[8] = "17"
    _, found, _ = verdict(changed(text.replace(row, " ".join(words)), tmp_path), tmp=tmp_path)
    assert found["collectives"][0]["faults"] == ["17 wrong values, first at 1 MiB: data was damaged"]


@pytest.mark.parametrize("last", ["16777216", "2147483648"])
def test_a_table_cut_short_fails(tmp_path: Path, last: str) -> None:
    text = genuine()
    row = next(line for line in text.splitlines() if line.split()[:1] == [last])
    status, found, _ = verdict(changed(text[: text.index(row)], tmp_path), tmp=tmp_path)
    assert status == 1
    assert any("cut short" in fault or "did not finish" in fault for fault in found["collectives"][0]["faults"])


def test_labels_of_srun_are_read_past(tmp_path: Path) -> None:
    labelled = "".join(f"0: {line}\n" for line in genuine().splitlines())
    _, found, _ = verdict(changed(labelled, tmp_path), tmp=tmp_path)
    assert len(found["collectives"][0]["rows"]) == 30


def test_an_instance_type_without_floors_is_said_to_have_none(tmp_path: Path) -> None:
    status, found, _ = verdict(OUTPUTS / "nvlink-all_reduce.txt", kind="g5.8xlarge", tmp=tmp_path)
    assert status == 0
    assert found["collectives"][0]["notes"] == ["no floor for all_reduce on g5.8xlarge"]


def test_every_floor_has_its_source() -> None:
    floors = json.loads((JOBS / "nccl-floors.json").read_text())["floors"]
    for entry in floors:
        assert set(entry) == {"instance_types", "nodes", "collective", "bytes", "busbw", "source"}
        assert entry["collective"] in COLLECTIVES and entry["nodes"] in (1, "many")
        assert len(entry["source"]) > 20
    for name in COLLECTIVES:
        assert any(entry["collective"] == name and "p5e.48xlarge" in entry["instance_types"] for entry in floors)
