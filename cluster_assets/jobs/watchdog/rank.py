"""rank.py PROGRAM [ARGUMENT...]: runs a training program in one process of torchrun, examinable by watchdog.py.

Files below $WATCHDOG_DIR, each named by the rank:

    ranks     node and process
    stacks    the Python stacks of all threads, after the signal STACKS
    flight    PyTorch's flight recorder: its last collectives, after a timeout of NCCL or on request
    failures  the exception that ended the program

The standard library only, Python 3.9 or later: it runs in any image that has torchrun.
"""

from __future__ import annotations

import faulthandler
import json
import os
import runpy
import signal
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

# A signal that no library uses; the process does not end by it.
STACKS = signal.SIGRTMIN + 10
RECORDS = "2000"


def write(path: Path, data: bytes) -> None:
    """Write a file that readers never see incomplete."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


def dump_on_request(pipe: Path, target: Path, nccl: Path) -> None:
    """Write the flight recorder after each write to a pipe. With NCCL, PyTorch does it on a pipe of its own."""
    while True:
        pipe.read_bytes()  # blocks until somebody has written
        recorder = sys.modules.get("torch._C._distributed_c10d")
        dump = getattr(recorder, "_dump_fr_trace", None)
        if dump and not nccl.exists():
            write(target, dump())


def set_up_flight_recorder(folder: Path, rank: str) -> None:
    """Set up the flight recorder, before the program imports torch."""
    # Both variables got new names in PyTorch 2.9, which warns of the old ones.
    release = tuple(int(word) for word in metadata.version("torch").split(".")[:2])
    size, file = (
        ("TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE")
        if release >= (2, 9)
        else ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    )
    os.environ.setdefault(size, RECORDS)
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
    os.environ.setdefault(file, f"{folder}/")  # and the rank
    pipe, nccl = folder / f".python-{rank}.pipe", folder / ".nccl-"
    # PyTorch ends a program whose pipe it cannot create: try it first.
    os.mkfifo(pipe)
    os.environ.setdefault("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", str(nccl))
    arguments = (pipe, folder / rank, Path(f"{nccl}{rank}.pipe"))
    threading.Thread(target=dump_on_request, args=arguments, daemon=True, name="watchdog").start()


def prepare(folder: Path, rank: str) -> None:
    """Make this process examinable. What fails here does not stop the training."""
    try:
        stacks = (folder / "stacks" / rank).open("w")
        faulthandler.register(STACKS, file=stacks, all_threads=True)
        faulthandler.enable()
        about = {"node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename, "pid": os.getpid()}
        write(folder / "ranks" / rank, json.dumps(about).encode())
        set_up_flight_recorder(folder / "flight", rank)
    except (OSError, ValueError, metadata.PackageNotFoundError) as problem:
        print(f"rank.py: the watchdog cannot examine rank {rank}: {problem}", file=sys.stderr)


def main(arguments: list[str]) -> None:
    """Run the program as if it had been started itself."""
    if not arguments:
        raise SystemExit("usage: rank.py PROGRAM [ARGUMENT...]")
    folder, rank = os.environ.get("WATCHDOG_DIR"), os.environ.get("RANK", "0")
    if folder:
        prepare(Path(folder), rank)
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except Exception as problem:
        if folder:
            failure = {"error": f"{type(problem).__name__}: {problem}"[:2000], "time": time.time()}
            try:
                write(Path(folder) / "failures" / rank, json.dumps(failure).encode())
            except OSError as other:
                print(f"rank.py: cannot record the failure: {other}", file=sys.stderr)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
