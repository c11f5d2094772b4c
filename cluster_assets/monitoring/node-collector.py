#!/usr/bin/env python3
"""What node_exporter has no collector for, written as a text file for its textfile collector.

    node-collector.py --folder FOLDER [--address IP] [--gpus N] [--interval SECONDS] [--once] [--root FOLDER]

Runs as trainyard-node-collector.service (steps/metrics.sh). Sources: EFA's hardware counters (sysfs), Lustre's client
statistics (debugfs, or /proc before Lustre 2.12), Xid errors (the kernel's log), GPUs that answer (nvidia-smi), and
whether the exporters of this node accept connections. A source that fails is `trainyard_collector_up{source} 0`; the
others continue.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Sample = tuple[str, dict[str, str], int]
# Of about 25 counters (linux/drivers/infiniband/hw/efa/efa_verbs.c): bytes, packets and errors. A P5 has 32 interfaces,
# and each counter is a series per interface.
EFA_COUNTERS = (
    *("tx_bytes", "rx_bytes", "rdma_read_bytes", "rdma_write_bytes", "retrans_bytes"),
    *("tx_pkts", "rx_pkts", "retrans_pkts", "rx_drops", "rdma_read_wr_err", "rdma_write_wr_err"),
    *("retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events"),
)
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
EXPORTERS = {"node": 9100, "dcgm": 9400}
NVIDIA_SMI_EVERY_S = 60
# ParallelCluster writes this file when an image is built (aws-parallelcluster-cookbook, entrypoints/install.rb).
BUILT = "opt/parallelcluster/.bootstrapped"


def efa(root: Path) -> Iterator[Sample]:
    """Nothing without EFA interfaces. One that fails, as during a reset, does not hide the others."""
    failed = []
    for device in sorted(root.glob("sys/class/infiniband/*")):
        if (device / "device/driver").resolve().name == "efa":
            try:
                yield from efa_device(device)
            except (OSError, ValueError) as reason:
                failed.append(f"{device.name}: {reason}")
    if failed:
        raise OSError("; ".join(failed))


def efa_device(device: Path) -> Iterator[Sample]:
    """Counters that the driver lacks are left out."""
    for port in sorted(device.glob("ports/*")):
        for counter in EFA_COUNTERS:
            file = port / "hw_counters" / counter
            if file.exists():
                labels = {"device": device.name, "port": port.name}
                yield f"trainyard_efa_{counter}_total", labels, int(file.read_text())


def lustre(root: Path) -> Iterator[Sample]:
    """One set of series per mounted file system; instances are called <fsname>-<address of the superblock>."""
    mounts = {}
    for line in (root / "proc/mounts").read_text().splitlines():
        device, mount, kind = line.split()[:3]
        if kind == "lustre":
            mounts[device.rpartition(":/")[2].split("/")[0]] = mount
    for folder in ("sys/kernel/debug/lustre/llite", "proc/fs/lustre/llite"):
        for stats in sorted(root.glob(folder + "/*/stats")):
            name = stats.parent.name.rpartition("-")[0]
            if name in mounts:
                yield from lustre_client(stats.read_text(), mounts[name])


def lustre_client(text: str, mount: str) -> Iterator[Sample]:
    """Lines are `NAME COUNT samples [UNIT] MIN MAX SUM SUMSQ`; counters without a sum end after the unit."""
    counted = {"read_bytes": 0, "write_bytes": 0}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[2] != "samples":
            continue
        if words[0] in counted:
            counted[words[0]] = int(words[6])
        else:
            labels = {"mount": mount, "operation": words[0]}
            yield "trainyard_lustre_operations_total", labels, int(words[1])
    for name, value in counted.items():
        yield f"trainyard_lustre_{name}_total", {"mount": mount}, value


class KernelLog:
    """Counts Xid errors in /dev/kmsg: first what the kernel still has since the boot, then what is new."""

    def __init__(self, root: Path) -> None:
        """Open nothing: each read tries to open the log until one succeeds."""
        self._root = root
        self._counts: Counter[tuple[str, str]] = Counter()
        self._file = -1

    def __call__(self) -> Iterator[Sample]:
        """Read to the end; one read is one message. EPIPE: messages were overwritten before they were read."""
        if self._file < 0:
            self._file = os.open(self._root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        while True:
            try:
                text = os.read(self._file, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            if not text:
                break
            for pci, xid in XID.findall(text.decode(errors="replace")):
                self._counts[self._gpu(pci), xid] += 1
        for (gpu, xid), count in sorted(self._counts.items()):
            yield "trainyard_xid_errors_total", {"gpu": gpu, "xid": xid}, count

    def _gpu(self, pci: str) -> str:
        """The index of DCGM and nvidia-smi (the order of PCI addresses, not the minor number); else the address."""
        for index, folder in enumerate(sorted(self._root.glob("proc/driver/nvidia/gpus/*"))):
            if folder.name.lower().startswith(pci.lower()):
                return str(index)
        return pci


class Gpus:
    """Counts the GPUs that nvidia-smi lists: one that fell off the bus is missing. If a GPU hangs, nvidia-smi does."""

    def __init__(self, expected: int) -> None:
        """Nothing is started yet."""
        self._expected = expected
        self._process: subprocess.Popen[str] | None = None
        self._started = float("-inf")
        self._found: int | None = None

    def __call__(self) -> Iterator[Sample]:
        """The last answer, at most a minute and an interval old; none while nvidia-smi does not answer."""
        yield "trainyard_gpus_expected", {}, self._expected
        if self._process and self._process.poll() is not None:
            process, self._process, self._found = self._process, None, None
            output = process.communicate()[0]
            if process.returncode < 0:  # by the limit of memory, for example: this says nothing about GPUs
                raise OSError(f"nvidia-smi was ended by signal {-process.returncode}")
            self._found = len(re.findall(r"^GPU \d+: .*UUID: GPU-", output, re.M))
        now = time.monotonic()
        if self._process is None and now - self._started >= NVIDIA_SMI_EVERY_S:
            self._process = subprocess.Popen(
                ["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._started = now
        if self._process and now - self._started > NVIDIA_SMI_EVERY_S:
            raise TimeoutError(f"nvidia-smi has not answered for {NVIDIA_SMI_EVERY_S} s")
        if self._found is not None:
            yield "trainyard_gpus_found", {}, self._found


def render(samples: Iterable[Sample]) -> str:
    """The text exposition format; series of one name must follow each other."""
    lines: dict[str, list[str]] = {}
    for name, labels, value in samples:
        quoted = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
        lines.setdefault(name, []).append(f"{name}{{{quoted}}} {value}" if quoted else f"{name} {value}")
    text = ""
    for name in sorted(lines):
        text += f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n" + "\n".join(lines[name]) + "\n"
    return text


def escape(text: str) -> str:
    """A label's value."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def exporter(address: str, port: int) -> Iterator[Sample]:
    """No series: only whether the exporter accepts connections."""
    socket.create_connection((address, port), timeout=2).close()
    yield from ()


def image(root: Path) -> Iterator[Sample]:
    """When the AMI was built; nothing where the file is missing."""
    if (root / BUILT).exists():
        yield "trainyard_ami_build_time_seconds", {}, int((root / BUILT).stat().st_mtime)


class Collector:
    """All sources of one node: those of GPUs only where the instance type has some."""

    def __init__(self, root: Path, address: str, gpus: int) -> None:
        """Choose the sources; `address` is where exporters listen, empty for none."""
        self._errors: dict[str, str] = {}
        self._sources: dict[str, Callable[[], Iterator[Sample]]] = {
            name: partial(source, root) for name, source in (("efa", efa), ("lustre", lustre), ("image", image))
        }
        if gpus:
            self._sources |= {"xid": KernelLog(root), "gpus": Gpus(gpus)}
        for name in ("node", "dcgm") if gpus else ("node",):
            if address:
                self._sources[name] = partial(exporter, address, EXPORTERS[name])

    def samples(self) -> Iterator[Sample]:
        """One round. An error is logged when it begins, not in each round."""
        for source, collect in self._sources.items():
            error = ""
            try:
                yield from collect()
            except (OSError, ValueError, IndexError) as reason:
                error = str(reason) or type(reason).__name__
                if self._errors.get(source) != error:
                    print(f"source {source}: {error}", file=sys.stderr, flush=True)
            self._errors[source] = error
            yield "trainyard_collector_up", {"source": source}, int(not error)


def main() -> int:
    """Collect until the service is stopped. A full disk is logged, and tried again."""
    parser = argparse.ArgumentParser(description="Writes metrics of this node for node_exporter.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--address", default="")
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--interval", type=float, default=15)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"))
    options = parser.parse_args()
    collector = Collector(options.root, options.address, options.gpus)
    while True:
        try:
            # Whole or not at all; node_exporter reads names that end in .prom.
            temporary = options.folder / "node-collector.tmp"
            temporary.write_text(render(collector.samples()))
            temporary.replace(options.folder / "node-collector.prom")
        except OSError as reason:
            print(f"cannot write to {options.folder}: {reason}", file=sys.stderr, flush=True)
        if options.once:
            return 0
        time.sleep(options.interval)


if __name__ == "__main__":
    sys.exit(main())
