"""The cost of monitoring on a compute node: CPU time and memory of node_exporter and of our node-collector.

    python scripts/benchmarks/monitoring.py [--node-exporter PROGRAM] [--rounds N]

Runs both on this machine as the bootstrap starts them, N rounds one after the other instead of every 15 s, and scales
the CPU time. EFA and Lustre are files of the size that a P5 has (32 interfaces, two file systems). Not in the figure:
dcgm-exporter and DCGM, which need a GPU; reads that the EFA driver must answer, and nvidia-smi once a minute.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTOR = ROOT / "cluster_assets/monitoring/node-collector.py"
SAMPLES = ROOT / "tests/observability/samples"
INTERVAL_S, INTERFACES = 15, 32


def make_root(root: Path) -> None:
    """EFA and Lustre as the kernel shows them, from the recorded samples."""
    counters = [line.split(":") for line in (SAMPLES / "efa-hw-counters.txt").read_text().split()]
    (root / "efa").mkdir()
    for number in range(INTERFACES):
        device = root / f"sys/class/infiniband/rdmap{number}s0"
        (device / "ports/1/hw_counters").mkdir(parents=True)
        (device / "device").mkdir()
        (device / "device/driver").symlink_to(root / "efa")
        for name, value in counters:
            (device / "ports/1/hw_counters" / name).write_text(value)
    (root / "proc").mkdir()
    mounts = [f"10.0.0.7@tcp:/fs{number} /fsx{number} lustre rw 0 0\n" for number in range(2)]
    (root / "proc/mounts").write_text("".join(mounts))
    for number in range(2):
        folder = root / f"sys/kernel/debug/lustre/llite/fs{number}-ffff"
        folder.mkdir(parents=True)
        (folder / "stats").write_text((SAMPLES / "llite-2.16.txt").read_text())


def used(pid: int) -> tuple[float, int]:
    """CPU seconds since the start, and the most resident memory in kB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(peak[1]) if peak else 0


def report(name: str, pid: int, rounds: int) -> None:
    """One line."""
    cpu, memory_kb = used(pid)
    percent, each = 100 * cpu / rounds / INTERVAL_S, cpu / rounds
    print(f"{name}: {percent:.2f} % of one CPU, {each:.4f} s a round, {memory_kb >> 10} MiB")


def main() -> int:
    """Print a line for each program."""
    parser = argparse.ArgumentParser(description="Measures the cost of monitoring on a compute node.")
    parser.add_argument("--node-exporter", default="prometheus-node-exporter")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    rounds = options.rounds
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free, ExitStack() as ends:
        root = Path(folder)
        make_root(root)
        text = root / "node-collector.prom"
        command = [sys.executable, str(COLLECTOR), "--folder", folder, "--root", folder, "--interval", "0.05"]
        collector = ends.enter_context(subprocess.Popen(command))
        ends.callback(collector.terminate)
        found, last = 0, 0
        while found < rounds:
            if collector.poll() is not None:
                sys.exit("node-collector ended")
            time.sleep(0.005)
            changed = text.stat().st_mtime_ns if text.exists() else last
            found, last = found + (changed != last), changed
        report("node-collector", collector.pid, rounds)
        collector.terminate()
        collector.wait()
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        serve = [options.node_exporter, f"--web.listen-address={address}", f"--collector.textfile.directory={root}"]
        exporter = ends.enter_context(subprocess.Popen([*serve, "--no-collector.infiniband", "--log.level=error"]))
        ends.callback(exporter.terminate)
        series = ""
        for _ in range(rounds):
            while True:
                if exporter.poll() is not None:
                    sys.exit("node_exporter ended")
                try:
                    series = urllib.request.urlopen(f"http://{address}/metrics", timeout=60).read().decode()
                    break
                except OSError:
                    time.sleep(0.1)
        report("node_exporter", exporter.pid, rounds)
    print(f"series of a node: {sum(not line.startswith('#') for line in series.splitlines())} ({os.cpu_count()} CPUs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
