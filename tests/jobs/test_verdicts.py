"""Verdicts of the GPU check and the storage tests on answers as the real programs give, and the export's order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import JOBS
from tests.stubs import fake_command

LIB = JOBS / "lib"
# `nvidia-smi nvlink --status` of each GPU, and `topo -p2p n`, of a host of H200s, 21 November 2026, driver 580.
LINKS = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
PEERS = " \t\x1b[4mGPU0\tGPU1\x1b[0m\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  X    = Self\n  NS   = Not supported\n"


def nvidia_smi(folder: Path, *, gpus: int = 2, links: str = LINKS, peers: str = PEERS) -> None:
    answers = {
        "-L": "".join(f"GPU {number}: NVIDIA H200 (UUID: GPU-{number})\n" for number in range(gpus)),
        "nvlink": "".join(f"GPU {number}: NVIDIA H200 (UUID: GPU-{number})\n{links}" for number in range(gpus)),
        "topo": peers,
    }
    fake_command(folder / "nvidia-smi", f"#!{sys.executable}\nimport sys\nprint({answers!r}[sys.argv[1]], end='')\n")


def fi_info(folder: Path, interfaces: int) -> None:
    lines = [
        f"provider: efa\\n    fabric: efa\\n    domain: rdmap{number}s0-rdm\\n    type: FI_EP_RDM\\n"
        for number in range(interfaces)
    ]
    fake_command(folder / "fi_info", f"printf '{''.join(lines)}'")


def check(folder: Path, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit status, and what was found and the verdict by line."""
    line: list[str | Path] = [sys.executable, LIB / "fabric_check.py", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PATH": f"{folder}:/usr/bin:/bin"})
    assert done.stderr == ""
    rows = re.findall(r"(?m)^\S+: (\w.{13}\w?) +(\w.*?) +wanted \w+ +(passed|FAILED|-)", done.stdout)
    return done.returncode, {what.strip(): (found, verdict) for what, found, verdict in rows}


WANTED = ("--gpus", "2", "--efa", "32", "--nvswitch", "H200")
NAMES = ("GPUs", "NVLinks a GPU", "GPU peers", "EFA interfaces")


def test_a_whole_node_passes(tmp_path: Path) -> None:
    nvidia_smi(tmp_path)
    fi_info(tmp_path, 32)
    found = [(value, "passed") for value in ("2", "18", "OK", "32")]
    assert check(tmp_path, *WANTED) == (0, dict(zip(NAMES, found, strict=True)))


def test_each_fault_is_found(tmp_path: Path) -> None:
    links, peers = LINKS.replace("Link 7: 26.562 GB/s", "Link 7: <inactive>"), PEERS.replace("OK", "NS", 1)
    nvidia_smi(tmp_path, gpus=1, links=links, peers=peers)
    fi_info(tmp_path, 31)
    found = [(value, "FAILED") for value in ("1", "17", "some are NS", "31")]
    assert check(tmp_path, *WANTED) == (1, dict(zip(NAMES, found, strict=True)))


def test_programs_that_are_missing_fail_what_asks_them(tmp_path: Path) -> None:
    found = [(f"{program} is missing", "FAILED") for program in ("nvidia-smi", "nvidia-smi", "nvidia-smi", "fi_info")]
    assert check(tmp_path, *WANTED) == (1, dict(zip(NAMES, found, strict=True)))


def test_what_nobody_asked_for_is_not_judged(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, gpus=1)
    status, lines = check(tmp_path, "--gpus", "1", "--efa", "0")
    assert status == 0
    assert list(lines.values()) == [("1", "passed"), ("not asked", "-"), ("not asked", "-"), ("0", "passed")]


def test_without_rows_of_peers_the_last_line_is_shown(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, peers="Topology of peers:\nnone here\n")
    status, lines = check(tmp_path, "--gpus", "2", "--nvswitch", "H200")
    assert (status, lines["GPU peers"]) == (1, ("none here", "FAILED"))


def test_of_a_gpu_without_a_known_number_of_nvlinks_the_peers_are_judged(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, peers=PEERS.replace("OK", "NS", 1))
    status, lines = check(tmp_path, "--gpus", "2", "--nvswitch", "R100")
    assert status == 1
    assert [verdict for _, verdict in lines.values()] == ["passed", "-", "FAILED", "-"]


# IOR 4.0's summary and mdtest's, as their documentation shows them.
IOR = """
access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     6801.2     6801.9     0.002351    16384      1024.00    0.000866   3.76       0.000412   3.76       0
Max Write: 6801.20 MiB/sec (7131.58 MB/sec)
Max Read:  7002.50 MiB/sec (7342.65 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s)
write        6801.20    6801.20    6801.20       0.00    6801.20    6801.20    6801.20       0.00    3.76
read         7002.50    7002.50    7002.50       0.00    7002.50    7002.50    7002.50       0.00    3.65
"""
MDTEST = """
SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   Directory creation          9561.100       9561.100       9561.100          0.000
   File creation               7000.250       7000.250       7000.250          0.000
   File stat                  51234.000      51234.000      51234.000          0.000
"""


def storage(
    folder: Path, *words: str, ior: str | dict[int, str] = IOR, mdtest: str = MDTEST, provisioned: int = 7200
) -> tuple[int, dict[str, Any], str]:
    for nodes, text in (ior if isinstance(ior, dict) else dict.fromkeys((1, 2), ior)).items():
        (folder / f"_fsx2-{nodes}-ior.txt").write_text(text)
    (folder / "_fsx2-mdtest.txt").write_text(mdtest)
    mounts = [{"name": "checkpoints", "path": "/fsx2", "type": "lustre", "throughput_mb_s": provisioned}]
    (folder / "settings.json").write_text(json.dumps({"mounts": mounts}))
    line: list[str | Path] = [
        sys.executable,
        LIB / "storage_verdict.py",
        "--settings",
        folder / "settings.json",
        "--tool",
        "ior",
    ]
    line += ["--mount", "/fsx2", "--outputs", folder / "_fsx2", "--json", folder / "verdict.json", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, json.loads((folder / "verdict.json").read_text()), done.stdout


def test_storage_is_judged_against_what_is_provisioned(tmp_path: Path) -> None:
    status, found, _ = storage(tmp_path, "--clients", "2", "--fraction", "95")
    assert status == 0, found
    assert found["mb_s"]["write"] == pytest.approx(7131.6, abs=0.1)
    assert found["metadata_per_s"]["file stat"] == 51234
    status, found, shown = storage(tmp_path, "--clients", "2", "--fraction", "100")
    assert status == 1
    assert "write 7132 MB/s, floor 7200 (100% of 7200)" in shown
    assert not found["simulated"]
    _, found, shown = storage(tmp_path, "--clients", "2", ior=f"srun: a line\n# simulated: nothing was measured\n{IOR}")
    assert found["simulated"] and "7132 MB/s of 7200 (simulated)" in shown


def test_few_clients_are_no_fault_of_the_file_system(tmp_path: Path) -> None:
    fast = IOR.replace("6801.20", "9600.00").replace("7002.50", "9600.00")
    assert storage(tmp_path, "--clients", "2", ior=fast, provisioned=72_000)[0] == 1
    status, found, _ = storage(tmp_path, "--clients", "1", ior=fast, provisioned=72_000)
    assert (status, found["target_mb_s"]) == (0, 10_000)


@pytest.mark.parametrize(
    ("rates", "status", "limit"),
    [
        ((900, 3600, 7100), 0, "the file system's limit is reached by 8 of 8 nodes"),
        ((900, 6900, 6000), 0, "the file system's limit is reached by 4 of 8 nodes"),
        ((800, 3200, 6000), 1, "the nodes are the limit, 800 MB/s each"),
        ((900, 3600, 3700), 1, "more than 4 of 8 nodes help little: the file system or the network is the limit"),
        ((900, 950, 940), 1, "more than 1 of 8 nodes help little: the file system or the network is the limit"),
    ],
)
def test_storage_from_one_half_and_all_nodes(tmp_path: Path, rates: tuple[float, ...], status: int, limit: str) -> None:
    texts = {
        nodes: "".join(f"{direction} 1.0 1.0 {rate / 1.048576:.2f} 0.0\n" for direction in ("write", "read"))
        for nodes, rate in zip((1, 4, 8), rates, strict=True)
    }
    found_status, found, shown = storage(tmp_path, "--clients", "1,4,8", "--fraction", "95", ior=texts)
    assert (found_status, found["scaling"]) == (status, [f"write: {limit}", f"read: {limit}"])
    assert [round(step["mb_s"]["write"]) for step in found["steps"]] == list(rates)
    assert round(found["mb_s"]["read"]) == max(rates) and limit in shown


def test_a_storage_test_that_failed_does_not_pass(tmp_path: Path) -> None:
    status, found, _ = storage(tmp_path, "--clients", "2", ior="# ior ended with status 1\n", mdtest="")
    assert status == 1
    assert len(found["faults"]) == 3


@pytest.mark.parametrize("version", ["fio-3.33", "simulated"])
def test_rates_of_fio_are_summed_over_the_nodes_and_say_whether_they_are_simulated(
    tmp_path: Path, version: str
) -> None:
    for node in ("a", "b"):
        for direction in ("write", "read"):
            jobs = [{"error": 0, direction: {"bw_bytes": 4_000_000_000}}]
            report = json.dumps({"fio version": version, "jobs": jobs})
            (tmp_path / f"_fsx2-2-fio-{direction}-{node}.json").write_text(f"note: laying out files\n{report}")
    status, found, shown = storage(tmp_path, "--tool", "fio", "--clients", "2")
    assert (status, found["mb_s"], found["simulated"]) == (0, {"write": 8000, "read": 8000}, version == "simulated")
    assert ("MB/s of 7200 (simulated)" in shown) is (version == "simulated")
    (tmp_path / "_fsx2-2-fio-read-b.json").unlink()
    status, found, _ = storage(tmp_path, "--tool", "fio", "--clients", "2")
    assert (status, found["faults"]) == (1, ["no figure for read from 2 nodes: the test failed, see its output"])


def test_a_mount_that_the_environment_lacks(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"mounts": [{"path": "/fsx1"}, {"path": "/fsx2"}]}')
    line: list[str | Path] = [sys.executable, LIB / "storage_verdict.py", "--tool", "ior", "--clients", "1"]
    line += ["--settings", tmp_path / "settings.json", "--mount", "/fsx9", "--outputs", tmp_path, "--json", tmp_path]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--mount '/fsx9' is not a mount; allowed: /fsx1, /fsx2" in done.stderr


EXPORT = """
source <(sed '$d' "$TRAINYARD_JOBS/train-model.sbatch")
NEWEST_PATH="$1" CHECKPOINT_STYLE="$2" EXPORT=s3://bucket/final/7 HOST_PYTHON="$3"
production::export
"""


def export(folder: Path, style: str, *, refused: str = "nothing") -> subprocess.CompletedProcess[str]:
    """Export a checkpoint with an aws that records its calls, and refuses those that contain `refused`."""
    place = folder.parent
    fake_command(place / "bin" / "aws", f'echo "$*" >>{place}/calls\n[[ "$*" != *"{refused}"* ]]')
    return subprocess.run(
        ["bash", "-c", EXPORT, "export", folder, style, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{place / 'bin'}:/usr/bin:/bin", "TRAINYARD_JOBS": str(JOBS)},
    )


@pytest.mark.parametrize(("refused", "copies"), [("nothing", 2), ("--recursive", 1), ("/manifest.json", 2)])
def test_export_copies_the_manifest_last(tmp_path: Path, refused: str, copies: int) -> None:
    folder, target = tmp_path / "step-00000100", "s3://bucket/final/7/step-00000100"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    done = export(folder, "deepspeed", refused=refused)
    assert done.returncode == (refused != "nothing")
    assert ("nothing was removed" if done.returncode else f"exported {folder}") in done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    first = f"s3 cp --only-show-errors --checksum-algorithm CRC32 --recursive --exclude manifest.json {folder} {target}"
    assert calls[0] == first and len(calls) == copies


@pytest.mark.parametrize(("style", "content"), [("manifest", b"changed"), ("manifest", None), ("deepspeed", None)])
def test_a_damaged_or_empty_checkpoint_is_not_exported(tmp_path: Path, style: str, content: bytes | None) -> None:
    folder = tmp_path / "step-00000100"
    folder.mkdir()
    if content is not None:
        (folder / "weights").write_bytes(content)
        files = {"weights": {"bytes": len(content), "sha256": "0" * 64}}
        manifest = {"format": 1, "step": 100, "final": True, "files": files}
        (folder / "manifest.json").write_text(json.dumps(manifest))
    done = export(folder, style)
    assert done.returncode == 1 and "nothing was exported or removed" in done.stderr
    assert ("is damaged: weights" if content else "has no files") in done.stderr
    assert not (tmp_path / "calls").exists()
