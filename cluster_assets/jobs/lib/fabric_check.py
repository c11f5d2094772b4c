"""fabric_check.py: compares this node's GPUs, NVLinks and EFA interfaces with the expected numbers.

It runs nvidia-smi and fi_info, so it sees what a program in the same container sees. Numbers without an expectation are
shown and not judged.

The standard library only, Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass

# Active NVLinks per GPU on nodes with NVSwitch (NVIDIA's data sheets).
_NVLINKS = {"A100": 12, "H100": 18, "H200": 18, "B200": 18, "B300": 18}
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Line:
    """One result. `passed` is None without an expectation."""

    what: str
    found: str
    wanted: str
    passed: bool | None
    do: str = ""


def ask(*command: str) -> tuple[bool, str]:
    """Run a command: whether it succeeded, and its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError:
        return False, f"{command[0]} is missing"
    except subprocess.TimeoutExpired:
        return False, f"{' '.join(command)} did not answer in {_TIMEOUT_S} s"
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def gpus(wanted: int | None) -> Line:
    """The GPUs that the driver lists."""
    answered, text = ask("nvidia-smi", "-L")
    found = len(re.findall(r"^GPU \d+:", text, re.MULTILINE))
    passed = answered and (wanted is None or found == wanted) if wanted != 0 else None
    shown = str(found) if answered else _short(text)
    return Line("GPUs", shown, _shown(wanted), passed, "drain the node; look for Xid in its kernel log")


def nvlinks(wanted: int | None) -> Line:
    """The lowest number of active NVLinks of a GPU."""
    if not wanted:
        return Line("NVLinks a GPU", "not asked", _shown(wanted), None)
    answered, text = ask("nvidia-smi", "nvlink", "--status")
    parts = re.split(r"^GPU \d+:", text, flags=re.MULTILINE)[1:]
    each = [len(re.findall(r"Link \d+: [\d.]+ GB/s", part)) for part in parts]
    found = min(each, default=0)
    shown = str(found) if answered else _short(text)
    return Line("NVLinks a GPU", shown, str(wanted), answered and found == wanted, "is nvidia-fabricmanager running?")


def peers(wanted: bool) -> Line:
    """Whether every GPU can access every other's memory over NVLink."""
    if not wanted:
        return Line("GPU peers", "not asked", "any", None)
    answered, text = ask("nvidia-smi", "topo", "-p2p", "n")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    rows = [line.split()[1:] for line in plain.splitlines() if re.match(r"\s*GPU\d+\s+(X|OK|\w+S)\b", line)]
    bad = sorted({word for row in rows for word in row if word not in ("X", "OK")})
    shown = ("OK" if not bad else f"some are {', '.join(bad)}") if answered and rows else _short(text)
    return Line("GPU peers", shown, "OK", answered and bool(rows) and not bad, "is nvidia-fabricmanager running?")


def efa(wanted: int | None) -> Line:
    """The EFA devices that libfabric offers for reliable datagrams."""
    answered, text = ask("fi_info", "-p", "efa", "-t", "FI_EP_RDM")
    found = len(set(re.findall(r"domain:\s*(\S+)", text)))
    shown = str(found) if answered or not wanted else _short(text)
    passed = None if wanted is None else (answered and found == wanted) or (wanted == 0 and found == 0)
    return Line("EFA interfaces", shown, _shown(wanted), passed, "is /dev/infiniband mounted, libfabric in the image?")


def _shown(wanted: object) -> str:
    return "any" if wanted is None else str(wanted)


def _short(text: str) -> str:
    return (text.splitlines() or ["no answer"])[-1][:100]


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="fabric_check.py", description="Check GPUs, NVLinks and EFA of this node.")
    parser.add_argument("--gpus", type=int, help="expected GPUs")
    parser.add_argument("--efa", type=int, help="expected EFA interfaces")
    parser.add_argument("--nvswitch", choices=sorted(_NVLINKS), help="kind of the GPUs, which NVSwitch connects")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    options = parser.parse_args(arguments)
    lines = [
        gpus(options.gpus),
        nvlinks(_NVLINKS.get(options.nvswitch)),
        peers(options.nvswitch is not None),
        efa(options.efa),
    ]
    failed = [line for line in lines if line.passed is False]
    node = socket.gethostname()
    if options.json:
        print(json.dumps({"node": node, "passed": not failed, "lines": [asdict(line) for line in lines]}))
        return int(bool(failed))
    for line in lines:
        verdict = {None: "-", True: "passed", False: "FAILED"}[line.passed]
        action = f"  {line.do}" if line.passed is False else ""
        print(f"{node}: {line.what:<15} {line.found:<12} wanted {line.wanted:<5} {verdict}{action}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
