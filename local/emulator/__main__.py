"""The process of an emulator: `python -m local.emulator --state-dir FOLDER` with local/.venv, started by launch.py.

FOLDER/emulator.json has what launch.start was given. Everything that ministack reads from its environment is set here,
before it is imported.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import sys
from pathlib import Path

from local.emulator.processes import HOST

FUNCTIONS = Path(__file__).parent / "functions"
# What the Python runtimes of Lambda bring along.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")


def link_runtime(folder: Path) -> None:
    """Fill the folder of the packages that functions may see."""
    folder.mkdir(exist_ok=True)
    for name in RUNTIME_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)


def main() -> None:
    """Set the environment, extend ministack, serve."""
    parser = argparse.ArgumentParser(prog="python -m local.emulator", description="Serve the emulated AWS.")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder with emulator.json")
    state = parser.parse_args().state_dir
    given = json.loads((state / "emulator.json").read_text())
    link_runtime(state / "runtime")
    os.environ.update(
        {
            "PYTHONPATH": str(FUNCTIONS),
            "NODE_PATH": str(FUNCTIONS.parents[1] / "node_modules"),
            "NODE_OPTIONS": f"--require {FUNCTIONS / 'loopback.js'}",
            "EMULATOR_RUNTIME_PACKAGES": str(state / "runtime"),
            "GATEWAY_PORT": str(given["port"]),
            "BIND_HOST": HOST,
            "MINISTACK_HOST": HOST,
            "STATE_DIR": str(state),
            "MINISTACK_REGION": given["region"],
            "MINISTACK_ACCOUNT_ID": given["account"],
            "AUTH": "true",
            # Or it listens on every interface, port 8883.
            "IOT_MTLS_ENABLED": "0",
            "LOG_LEVEL": "INFO",
            "LAMBDA_EXECUTOR": "local",
            "SFN_WAIT_SCALE": str(given["wait_scale"]),
        }
    )
    # Only now: these modules read the environment as they are imported.
    from ministack import app

    from local.emulator import extension, seeds

    try:
        extension.install(given)
    except seeds.SeedError as error:
        sys.exit(f"emulator: {error}")
    # As in local.api.
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
    del sys.argv[1:]  # ministack parses it again
    app.main()


if __name__ == "__main__":
    main()
