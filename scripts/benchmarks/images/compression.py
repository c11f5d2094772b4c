#!/usr/bin/env python3
"""Compares squashfs compressions of container images: time to write, size, and time to start.

    sudo python scripts/benchmarks/images/compression.py --content <folder>... [--readers 2] [--rounds 3]

Each round writes a squashfs file with every option in turn; then as many readers as nodes start from that file at once,
in two ways:
  unpack  as `enroot create` does under Pyxis: the image to the node's disk
  read    a loop mount, and all of it read (root only)
The file is dropped from the page cache before each. CPU seconds are given too because they depend less on other load.
The best round counts. Fetching and unpacking the layers is the same for all and not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

OPTIONS = {
    "none": "-comp lzo -noD",
    "lz4": "-comp lz4",
    "lzo": "-comp lzo",
    "zstd-1": "-comp zstd -Xcompression-level 1",
    "zstd-3": "-comp zstd -Xcompression-level 3",
    "zstd-9": "-comp zstd -Xcompression-level 9",
    "gzip": "-comp gzip",
}
MIB = 1 << 20


@dataclass(frozen=True)
class Taken:
    """Wall-clock seconds, and CPU seconds of all processors."""

    clock_s: float
    processor_s: float


def taken(work: Callable[[], None]) -> Taken:
    """The time of work done by child processes that end with it."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(time.monotonic() - started, used)


def forget(image: Path) -> None:
    """Drop a file from the page cache, as on a node that has not read it."""
    with image.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def together(commands: Sequence[Sequence[str]]) -> None:
    """Run commands in parallel until the last ends."""
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    if failed := [process.args for process in running if process.wait()]:
        raise subprocess.CalledProcessError(1, str(failed[0]))


def squash(content: Sequence[Path], image: Path, options: str, processors: int) -> None:
    """As Enroot writes an image."""
    image.unlink(missing_ok=True)
    command = [
        "mksquashfs",
        *map(str, content),
        str(image),
        "-all-root",
        "-no-progress",
        "-processors",
        str(processors),
    ]
    subprocess.run([*command, *options.split()], check=True, stdout=subprocess.DEVNULL)


def unpack(image: Path, work: Path, readers: int, processors: int) -> Taken:
    """The time until all readers have unpacked the image."""
    targets = [work / f"unpacked-{reader}" for reader in range(readers)]
    forget(image)
    each = str(max(1, processors // readers))
    command = ["unsquashfs", "-no-progress", "-quiet", "-processors", each]
    found = taken(lambda: together([[*command, "-dest", str(target), str(image)] for target in targets]))
    for target in targets:
        shutil.rmtree(target)
    return found


def read(image: Path, work: Path, readers: int) -> Taken | None:
    """The time until all readers have mounted and read the image; None if it cannot be mounted."""
    targets = [work / f"mounted-{reader}" for reader in range(readers)]
    for target in targets:
        target.mkdir()
    forget(image)
    line = 'mount -o loop,ro -t squashfs "$1" "$2" && tar --create --file=- --directory="$2" . | cat >/dev/null'
    try:
        return taken(lambda: together([["bash", "-c", line, "read", str(image), str(target)] for target in targets]))
    except subprocess.CalledProcessError:
        return None
    finally:
        for target in targets:
            subprocess.run(["umount", str(target)], check=False, stderr=subprocess.DEVNULL)
            target.rmdir()


def measure(content: Sequence[Path], work: Path, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The best figures of all rounds by option."""
    best: dict[str, dict[str, float]] = {name: {} for name in arguments.options}
    image = work / "image.sqsh"
    for number in range(arguments.rounds):
        for name in arguments.options:
            times = {
                "squash": taken(partial(squash, content, image, OPTIONS[name], arguments.processors)),
                "unpack": unpack(image, work, arguments.readers, arguments.processors),
                "read": read(image, work, arguments.readers) if os.geteuid() == 0 else None,
            }
            found = {"size_mib": image.stat().st_size / MIB}
            for step, time_taken in times.items():
                if time_taken:
                    found |= {f"{step}_s": time_taken.clock_s, f"{step}_processor_s": time_taken.processor_s}
            best[name] = {figure: min(value, best[name].get(figure, value)) for figure, value in found.items()}
            print(f"round {number + 1}, {name}: {found}", file=sys.stderr, flush=True)
    return best


def table(best: dict[str, dict[str, float]], base: str) -> str:
    """A Markdown table; each cell has the ratio to the option `base`."""
    lines = [
        "| Compression | Size | Squash | Unpack on all nodes | Mount and read on all nodes |",
        "|---|---|---|---|---|",
    ]
    for name, row in best.items():
        cells = [f"{row['size_mib']:.0f} MiB ({row['size_mib'] / best[base]['size_mib']:.2f})"]
        for step in ("squash", "unpack", "read"):
            used = f"{step}_processor_s"
            if used not in row or used not in best[base]:
                cells.append("-")
                continue
            cells.append(
                f"{row[used]:.1f} s ({row[used] / best[base][used]:.2f}), {row[f'{step}_s']:.1f} s by the clock"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--content", type=Path, nargs="+", required=True, help="folders that the image holds")
    top.add_argument("--readers", type=int, default=2, help="nodes that start at once (default: 2)")
    top.add_argument("--rounds", type=int, default=3, help="how often each option is measured (default: 3)")
    top.add_argument("--processors", type=int, default=os.cpu_count(), help="default: all")
    top.add_argument("--options", nargs="+", choices=OPTIONS, default=list(OPTIONS), help="default: all")
    top.add_argument("--work", type=Path, default=None, help="folder for the files (default: a temporary one)")
    top.add_argument(
        "--base", choices=OPTIONS, default="zstd-1", help="the option that ratios refer to (default: %(default)s)"
    )
    arguments = top.parse_args()
    if missing := [str(folder) for folder in arguments.content if not folder.is_dir()]:
        top.error(f"no folder {missing[0]}")
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        best = measure(arguments.content, Path(work), arguments)
    print(table(best, arguments.base))
    print(json.dumps(best), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
