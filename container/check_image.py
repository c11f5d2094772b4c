"""Checks the built image as an ordinary user, at the end of a build. Needs no GPU."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
BASE = {"torch": "2.13.0", "deepspeed": "0.19.2"}
COMMANDS = ("torchrun", "fi_info", "all_reduce_perf")
FILES = ("train_distributed_deepspeed.py", "ds_config.json", "Megatron-LM/pretrain_gpt.py")


def installed(package: str) -> str:
    try:
        return importlib.metadata.version(package).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def main() -> int:
    lines = (line.partition("#")[0].strip() for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines())
    wanted = BASE | dict(line.split("==", 1) for line in lines if line)
    problems = [
        f"{package}: {installed(package)}, wanted {version}"
        for package, version in wanted.items()
        if installed(package) != version
    ]
    problems += [f"no command {command} in PATH" for command in COMMANDS if shutil.which(command) is None]
    problems += [
        f"{name} is missing or not readable for user {os.getuid()}"
        for name in FILES
        if not os.access(Path(__file__).parent / name, os.R_OK)
    ]
    print("\n".join(problems) or "the image is complete", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
