"""node-collector.py on recorded files of EFA, Lustre and the kernel's log."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.jobs.conftest import load_module
from tests.stubs import fake_command

PROGRAM = Path(__file__).parents[2] / "cluster_assets/monitoring/node-collector.py"
SERIES = Path(__file__).parent / "series.json"
SAMPLES = Path(__file__).parent / "samples"
FORMAT = re.compile(r'(# TYPE [a-z_]+ (counter|gauge)|[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? -?\d+)')


@pytest.fixture
def collector() -> ModuleType:
    return load_module(PROGRAM)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A P4d's EFA interface, another vendor's, two Lustre clients, an Xid, an image's date."""
    for device, driver in (("rdmap144s27", "efa"), ("mlx5_0", "mlx5_core")):
        folder = tmp_path / "sys/class/infiniband" / device
        (folder / "ports/1/hw_counters").mkdir(parents=True)
        (tmp_path / "drivers" / driver).mkdir(parents=True)
        (folder / "device").mkdir()
        (folder / "device/driver").symlink_to(tmp_path / "drivers" / driver)
        for line in (SAMPLES / "efa-hw-counters.txt").read_text().split():
            name, value = line.split(":")
            (folder / "ports/1/hw_counters" / name).write_text(value + "\n")
    clients = {
        "sys/kernel/debug/lustre/llite/abcdbdev-ffff9bc043537800": "llite-2.16.txt",
        "proc/fs/lustre/llite/fsold-ffff880429ee7c00": "llite-2.10.txt",
    }
    for name, sample in clients.items():
        (tmp_path / name).mkdir(parents=True)
        shutil.copy(SAMPLES / sample, tmp_path / name / "stats")
    (tmp_path / "proc/mounts").write_text(
        "/dev/root / ext4 rw 0 0\n10.0.1.7@tcp:/abcdbdev /fsx lustre rw,flock 0 0\n"
        "10.0.1.8@tcp:/fsold/sub /data lustre rw 0 0\n"
    )
    for index, address in enumerate(("0000:53:00.0", "0000:64:00.0")):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t {1 - index}\n")
    (tmp_path / "dev").mkdir()
    shutil.copy(SAMPLES / "kmsg.txt", tmp_path / "dev/kmsg")
    (tmp_path / "opt/parallelcluster").mkdir(parents=True)
    (tmp_path / "opt/parallelcluster/.bootstrapped").write_text("aws-parallelcluster-cookbook-3.16.1\n")
    return tmp_path


def run(root: Path, folder: Path, *options: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, "--once", "--root", root, "--folder", folder, *options],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def series(folder: Path) -> dict[str, int]:
    lines = (folder / "node-collector.prom").read_text().splitlines()
    assert all(FORMAT.fullmatch(line) for line in lines), lines
    names = [re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")]
    assert sorted(names) == names, "series of one name follow each other"
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_all_sources_of_a_gpu_node(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path, "--gpus", "2")
    found = series(tmp_path)
    port = '{device="rdmap144s27",port="1"}'
    assert found[f"trainyard_efa_rdma_read_bytes_total{port}"] == 83829566349996
    assert found[f"trainyard_efa_retrans_timeout_events_total{port}"] == 0
    assert f"trainyard_efa_rdma_write_bytes_total{port}" not in found, "a P4d's driver has no such counter"
    assert "mlx5_0" not in str(found)
    assert found['trainyard_lustre_read_bytes_total{mount="/fsx"}'] == 5242880
    assert found['trainyard_lustre_operations_total{mount="/fsx",operation="statfs"}'] == 16977
    assert found['trainyard_lustre_write_bytes_total{mount="/data"}'] == 468230469
    assert found['trainyard_lustre_operations_total{mount="/data",operation="open"}'] == 3
    assert found['trainyard_xid_errors_total{gpu="0",xid="79"}'] == 2
    assert found['trainyard_xid_errors_total{gpu="1",xid="48"}'] == 1
    assert found["trainyard_ami_build_time_seconds"] > 10**9
    assert found["trainyard_gpus_expected"] == 2
    # No nvidia-smi on this machine.
    up = {source: found[f'trainyard_collector_up{{source="{source}"}}'] for source in ("efa", "lustre", "xid", "gpus")}
    assert up == {"efa": 1, "lustre": 1, "xid": 1, "gpus": 0}
    assert "source gpus" in result.stderr and "Traceback" not in result.stderr


def test_series_and_types_are_those_that_dashboards_and_alerts_know(root: Path, tmp_path: Path) -> None:
    known = json.loads(SERIES.read_text())["series"]
    run(root, tmp_path, "--gpus", "2")
    for name in series(tmp_path):
        one = known[name.partition("{")[0]]
        assert one["labels"] == re.findall(r'([a-z_]+)="', name), name
        assert f"# TYPE {name.partition('{')[0]} {one['type']}\n" in (tmp_path / "node-collector.prom").read_text()
    fields = (PROGRAM.parent / "dcgm-counters.csv").read_text().splitlines()
    dcgm = {line.split(",")[0]: line.split(", ")[1] for line in fields if not line.startswith("#")}
    assert dcgm == {name: one["type"] for name, one in known.items() if name.startswith("DCGM_")}


def test_node_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").touch()
    run(tmp_path, tmp_path)
    assert series(tmp_path) == {
        'trainyard_collector_up{source="efa"}': 1,
        'trainyard_collector_up{source="image"}': 1,
        'trainyard_collector_up{source="lustre"}': 1,
    }


def test_source_that_fails_leaves_the_others(root: Path, tmp_path: Path) -> None:
    (root / "sys/kernel/debug/lustre/llite/abcdbdev-ffff9bc043537800/stats").write_text(
        "read_bytes x samples [bytes]\n"
    )
    result = run(root, tmp_path)
    found = series(tmp_path)
    assert found['trainyard_collector_up{source="lustre"}'] == 0 and "source lustre" in result.stderr
    assert found['trainyard_collector_up{source="efa"}'] == 1


def test_folder_that_cannot_be_written_is_logged(root: Path) -> None:
    result = run(root, root / "missing")
    assert result.returncode == 0 and "cannot write to" in result.stderr and "Traceback" not in result.stderr


def test_exporter_that_does_not_listen_is_down(collector: ModuleType, tmp_path: Path) -> None:
    """The case of a node without DCGM."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").touch()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        collector.EXPORTERS.update(node=server.getsockname()[1], dcgm=closed.getsockname()[1])
        one = collector.Collector(tmp_path, "127.0.0.1", 8)
        text = collector.render(one.samples())
    assert 'trainyard_collector_up{source="node"} 1' in text
    assert 'trainyard_collector_up{source="dcgm"} 0' in text


def test_xid_is_counted_once_and_new_ones_are_added(collector: ModuleType, root: Path) -> None:
    log = collector.KernelLog(root)
    assert sum(value for _, _, value in log()) == 3
    assert sum(value for _, _, value in log()) == 3
    with (root / "dev/kmsg").open("a") as file:
        file.write("3,1300,99999999,-;NVRM: Xid (PCI:0000:75:00): 31, pid=7, name=python3\n")
    found = {(labels["gpu"], labels["xid"]): value for _, labels, value in log()}
    assert found == {("0", "79"): 2, ("1", "48"): 1, ("0000:75:00", "31"): 1}


def test_one_bad_efa_interface_hides_no_other(root: Path, tmp_path: Path) -> None:
    devices = root / "sys/class/infiniband"
    shutil.copytree(devices / "rdmap144s27", devices / "rdmap0s1", symlinks=True)
    (devices / "rdmap0s1/ports/1/hw_counters/tx_bytes").write_text("")
    result = run(root, tmp_path)
    found = series(tmp_path)
    assert found['trainyard_efa_rdma_read_bytes_total{device="rdmap144s27",port="1"}'] == 83829566349996
    assert found['trainyard_collector_up{source="efa"}'] == 0 and "source efa: rdmap0s1: " in result.stderr


def test_killed_nvidia_smi_is_not_a_missing_gpu(
    collector: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_command(tmp_path / "nvidia-smi", "kill -KILL $$")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    gpus = collector.Gpus(2)
    list(gpus())
    gpus._process.wait(timeout=60)
    with pytest.raises(OSError, match="nvidia-smi was ended by signal 9"):
        list(gpus())


def test_gpus_that_answer_and_a_driver_that_hangs(
    collector: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost GPU is not in the list; while nvidia-smi hangs there is one process of it, and no count."""
    answer = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\nUnable to determine the device handle for gpu 0000:64:00.0\n"
    (tmp_path / "answer").write_text(answer)
    fake_command(tmp_path / "nvidia-smi", f"[ ! -e {tmp_path}/hang ] || exec sleep 600\ncat {tmp_path}/answer")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    gpus = collector.Gpus(2)
    assert [name for name, _, _ in gpus()] == ["trainyard_gpus_expected"], "not yet answered"
    gpus._process.wait(timeout=60)
    assert {name: value for name, _, value in gpus()} == {"trainyard_gpus_expected": 2, "trainyard_gpus_found": 1}
    (tmp_path / "hang").touch()
    monkeypatch.setattr(collector, "NVIDIA_SMI_EVERY_S", 0)
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError, match="nvidia-smi has not answered"):
                while True:
                    list(gpus())
        assert gpus._process.poll() is None
    finally:
        gpus._process.kill()
        gpus._process.communicate()
