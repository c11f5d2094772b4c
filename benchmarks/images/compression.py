#!/usr/bin/env python3
"""How container images should be squashed: time to write, size, and time to start, for each compression.

    sudo python benchmarks/images/compression.py --content <folder>... [--readers 2] [--rounds 3]

Each round writes a squashfs file of the content with every option, in turn, so that a slow moment of the machine hits
all; then as many readers as there are nodes start from that one file at once, in the two ways that there are:
  unpack  what `enroot create` does under Pyxis: the whole image to the node's disk
  read    a loop mount, and all of it read (root only)
Before each, the file is put out of the page cache. The best of the rounds counts. What comes before squashing in an
import, fetching and unpacking the layers, is the same for all and not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
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


def seconds(work: Callable[[], None]) -> float:
    """How long it takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def forget(image: Path) -> None:
    """Put a file out of the page cache, as on a node that has not read it yet."""
    with image.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def together(commands: Sequence[Sequence[str]]) -> None:
    """Run commands at the same time, to the end of the last."""
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


def unpack(image: Path, work: Path, readers: int, processors: int) -> float:
    """Seconds until the last of the readers has unpacked the image."""
    targets = [work / f"unpacked-{reader}" for reader in range(readers)]
    forget(image)
    each = str(max(1, processors // readers))
    command = ["unsquashfs", "-no-progress", "-quiet", "-processors", each]
    taken = seconds(lambda: together([[*command, "-dest", str(target), str(image)] for target in targets]))
    for target in targets:
        shutil.rmtree(target)
    return taken


def read(image: Path, work: Path, readers: int) -> float | None:
    """Seconds until the last of the readers has mounted the image and read all of it; None where that cannot be."""
    targets = [work / f"mounted-{reader}" for reader in range(readers)]
    for target in targets:
        target.mkdir()
    forget(image)
    line = 'mount -o loop,ro -t squashfs "$1" "$2" && tar --create --file=- --directory="$2" . | cat >/dev/null'
    try:
        return seconds(lambda: together([["bash", "-c", line, "read", str(image), str(target)] for target in targets]))
    except subprocess.CalledProcessError:
        return None
    finally:
        for target in targets:
            subprocess.run(["umount", str(target)], check=False, stderr=subprocess.DEVNULL)
            target.rmdir()


def measure(content: Sequence[Path], work: Path, arguments: argparse.Namespace) -> dict[str, dict[str, float | None]]:
    """The best figures of all rounds, by option."""
    best: dict[str, dict[str, float | None]] = {name: {} for name in arguments.options}
    image = work / "image.sqsh"
    for number in range(arguments.rounds):
        for name in arguments.options:
            squashed = seconds(partial(squash, content, image, OPTIONS[name], arguments.processors))
            found: dict[str, float | None] = {
                "squash_s": squashed,
                "size_mib": image.stat().st_size / MIB,
                "unpack_s": unpack(image, work, arguments.readers, arguments.processors),
                "read_s": read(image, work, arguments.readers) if os.geteuid() == 0 else None,
            }
            for figure, value in found.items():
                before = best[name].get(figure)
                best[name][figure] = value if before is None or (value is not None and value < before) else before
            print(f"round {number + 1}, {name}: {found}", file=sys.stderr)
    return best


def table(best: dict[str, dict[str, float | None]], base: str) -> str:
    """A Markdown table with ratios to one of the options."""
    lines = [
        f"| Compression | Size | Squash | Unpack | Mount and read | Ratios to {base} |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in best.items():
        ratios = ", ".join(
            f"{row[key] / best[base][key]:.2f}"  # type: ignore[operator]
            for key in ("size_mib", "squash_s", "unpack_s", "read_s")
            if row[key] and best[base][key]
        )
        reading = f"{row['read_s']:.1f} s" if row["read_s"] else "-"
        lines.append(
            f"| {name} | {row['size_mib']:.0f} MiB | {row['squash_s']:.1f} s | {row['unpack_s']:.1f} s "
            f"| {reading} | {ratios} |"
        )
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
    top.add_argument("--base", default="lzo", help="the option that ratios refer to (default: lzo)")
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
