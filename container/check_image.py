"""Checks the built image as an ordinary user, at the end of a build. Needs no GPU."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
BASE = {"torch": "2.13.0", "deepspeed": "0.19.2"}
COMMANDS = ("torchrun", "fi_info")
NCCL_TESTS = "/opt/nccl-tests/build"
"""The folder where the job nccl-tests.sbatch and the validation look."""
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "sendrecv")
PROGRAMS = {
    **{f"{NCCL_TESTS}/{name}_perf": ("--help", "USAGE") for name in COLLECTIVES},
    **{"ior": ("-h", "Synopsis"), "mdtest": ("-h", "Synopsis"), "fio": ("--version", "fio-")},
    **{"nvbandwidth": ("--help", "testcase"), "dcgmi": ("--version", "version")},
}
"""What the validation runs: an option that needs no GPU, and a word of the answer."""
OF_THE_DRIVER = {"libcuda.so.1", "libnvidia-ml.so.1"}
"""Libraries that nodes with GPUs add to a container, and no build machine has."""
LIMIT_S = 60
FILES = (
    *("train_distributed_deepspeed.py", "prepare_inputs.py", "ds_config.json", "ds_config_zero3.json"),
    "Megatron-LM/pretrain_gpt.py",
)


def installed(package: str) -> str:
    try:
        return importlib.metadata.version(package).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def fault(program: str, option: str, word: str) -> str:
    """What is wrong with a program; empty if it starts, or lacks only the driver's libraries."""
    path = shutil.which(program)
    if path is None:
        return f"no program {program}"
    try:
        libraries = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout
        missing = set(re.findall(r"(\S+) => not found", libraries))
        if missing:
            others = sorted(missing - OF_THE_DRIVER)
            return f"{program} lacks {', '.join(others)}" if others else ""
        # Not by its status: help is a failure for some.
        done = subprocess.run([path, option], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"{program} does not start: {problem}"
    said = done.stdout + done.stderr
    return "" if word in said else f"{program} {option} ended with status {done.returncode}: {said[-300:]}"


def unprepared(megatron: Path) -> str:
    """Why Megatron-LM could not start on a read-only root; empty if its compiled module is there and up to date."""
    folder = megatron / "megatron" / "core" / "datasets"
    line = ["make", "--question", f"--directory={folder}"]
    if subprocess.run(line, capture_output=True, timeout=LIMIT_S, check=False).returncode:
        return f"make would compile in {folder}"
    line = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import helpers_cpp"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return f"helpers_cpp of {folder} cannot be imported: {done.stderr[-300:]}" if done.returncode else ""


def main() -> int:
    lines = (line.partition("#")[0].strip() for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines())
    wanted = BASE | dict(line.split("==", 1) for line in lines if line)
    problems = [
        f"{package}: {installed(package)}, wanted {version}"
        for package, version in wanted.items()
        if installed(package) != version
    ]
    problems += [f"no command {command} in PATH" for command in COMMANDS if shutil.which(command) is None]
    problems += filter(None, (fault(program, *expected) for program, expected in PROGRAMS.items()))
    problems += [
        f"{name} is missing or not readable for user {os.getuid()}"
        for name in FILES
        if not os.access(Path(__file__).parent / name, os.R_OK)
    ]
    problems += filter(None, [unprepared(Path(__file__).parent / "Megatron-LM")])
    print("\n".join(problems) or "the image is complete", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
