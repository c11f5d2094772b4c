"""fabric_check.py: compares this node's GPUs, NVLinks and EFA interfaces with the expected numbers.

It runs nvidia-smi and fi_info, so it sees what a program in the same container sees. Numbers without an expectation are
shown and not judged.

The standard library only, Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys

# Active NVLinks per GPU on nodes with NVSwitch (NVIDIA's data sheets). Those of other GPUs are shown and not judged.
_NVLINKS = {"A100": 12, "H100": 18, "H200": 18, "B200": 18, "B300": 18}
_TIMEOUT_S = 120


def ask(*command: str) -> tuple[bool, str]:
    """Run a command: whether it succeeded, and its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError:
        return False, f"{command[0]} is missing"
    except subprocess.TimeoutExpired:
        return False, f"{' '.join(command)} did not answer in {_TIMEOUT_S} s"
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def nvlinks(text: str) -> int:
    """The lowest number of active NVLinks of a GPU, of `nvidia-smi nvlink --status`."""
    parts = re.split(r"^GPU \d+:", text, flags=re.MULTILINE)[1:]
    return min((len(re.findall(r"Link \d+: [\d.]+ GB/s", part)) for part in parts), default=0)


def peers(text: str) -> str:
    """OK if every GPU can access every other's memory over NVLink, of `nvidia-smi topo -p2p n`; empty without rows."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    rows = [line.split()[1:] for line in plain.splitlines() if re.match(r"\s*GPU\d+\s+(X|OK|\w+S)\b", line)]
    bad = sorted({word for row in rows for word in row if word not in ("X", "OK")})
    return f"some are {', '.join(bad)}" if bad else "OK" if rows else ""


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="fabric_check.py", description="Check GPUs, NVLinks and EFA of this node.")
    parser.add_argument("--gpus", type=int, required=True, help="expected GPUs")
    parser.add_argument("--efa", type=int, help="expected EFA interfaces")
    parser.add_argument("--nvswitch", metavar="GPU", help="kind of the GPUs, which NVSwitch connects")
    options = parser.parse_args(arguments)
    links = _NVLINKS.get(options.nvswitch)
    nvlink, topology = ("nvidia-smi nvlink --status", "nvidia-smi topo -p2p n") if options.nvswitch else ("", "")
    manager = "is nvidia-fabricmanager running?"
    checks = (
        ("GPUs", "nvidia-smi -L", lambda text: len(re.findall(r"(?m)^GPU \d+:", text)), options.gpus or None,
         "drain the node; look for Xid in its kernel log"),
        ("NVLinks a GPU", nvlink, nvlinks, links, manager),
        ("GPU peers", topology, peers, "OK" if options.nvswitch else None, manager),
        ("EFA interfaces", "fi_info -p efa -t FI_EP_RDM", lambda text: len(set(re.findall(r"domain:\s*(\S+)", text))),
         options.efa, "is /dev/infiniband mounted, libfabric in the image?"),
    )  # fmt: skip
    node, failed = os.environ.get("SLURMD_NODENAME") or socket.gethostname(), False
    for what, command, count, wanted, advice in checks:
        if not command:
            print(f"{node}: {what:<15} {'not asked':<12} wanted any   -")
            continue
        answered, text = ask(*command.split())
        found = count(text)
        # Without EFA fi_info fails, or is missing.
        passed = wanted is None or (found == wanted and (answered or not wanted))
        failed |= not passed
        shown = str(found) if answered or not wanted else ""
        shown = shown or (text.splitlines() or ["no answer"])[-1][:100]
        verdict = "-" if wanted is None else "passed" if passed else f"FAILED  {advice}"
        expected = "any" if wanted is None else wanted
        print(f"{node}: {what:<15} {shown:<12} wanted {expected:<5} {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
