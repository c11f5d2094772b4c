"""gpu_use.py --file FILE [--interval SECONDS]: when each GPU of this node last worked; for idle_gpus.py.

Runs as trainyard-gpu-use.service on nodes with GPUs, if a quality of service ends idle interactive jobs. The file, of
root, has `time`, and by nvidia-smi's index `busy`, when the GPU was last over 5 % (null: unknown), and `minors`, the
numbers of the devices, which Slurm's indices follow. A GPU counts as busy when this program starts. If nvidia-smi
fails, the file is not written, becomes old, and no job is ended. The standard library only, Python 3.9.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

BUSY_PERCENT = 5
TIMEOUT_S = 30
QUERY = ("nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits")


def minors(root: Path, count: int) -> list[int]:
    """The device number of each GPU in the order of PCI addresses, which is nvidia-smi's; without a driver the same."""
    found = []
    for file in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        if match := re.search(r"^Device Minor:\s*(\d+)", file.read_text(), re.M):
            found.append(int(match.group(1)))
    return found if len(found) == count else list(range(count))


def sample(before: list[Optional[float]], now: float, begun: float) -> list[Optional[float]]:  # noqa: UP045 - Python 3.9
    """When each GPU last worked, by what nvidia-smi reports now; OSError or SubprocessError if it does not."""
    text = subprocess.run(QUERY, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout
    found: list[Optional[float]] = []  # noqa: UP045 - Python 3.9
    for place, line in enumerate(text.splitlines()):
        index, _, percent = (word.strip() for word in line.partition(","))
        if index != str(place):
            raise OSError(f"nvidia-smi lists GPU {index} in place {place}")
        last = before[place] if place < len(before) else begun
        if not percent.isdigit():
            found.append(None)
        else:
            found.append(now if int(percent) > BUSY_PERCENT or last is None else last)
    if not found:
        raise OSError("nvidia-smi lists no GPU")
    return found


def main(arguments: Sequence[str]) -> int:
    """Sample until the service is stopped."""
    parser = argparse.ArgumentParser(prog="gpu_use.py", description="When the GPUs of this node last worked.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--interval", type=float, default=20)
    parser.add_argument("--root", type=Path, default=Path("/"))
    options = parser.parse_args(arguments)
    begun, busy, problem = time.time(), list[Optional[float]](), ""  # noqa: UP045 - Python 3.9
    options.file.parent.mkdir(parents=True, exist_ok=True)
    temporary = options.file.with_name(f".{options.file.name}")
    while True:
        now = time.time()
        try:
            busy = sample(busy, now, begun)
            report = {"time": now, "busy": busy, "minors": minors(options.root, len(busy))}
            temporary.write_text(json.dumps(report))
            temporary.replace(options.file)
            problem = ""
        except (OSError, subprocess.SubprocessError) as error:
            if str(error) != problem:
                print(error, file=sys.stderr, flush=True)
            problem = str(error)
        time.sleep(options.interval)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
