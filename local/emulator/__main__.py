"""Start the emulator: `python -m local.emulator --help`, with local/.venv, in the root of the checkout.

Everything that ministack reads from its environment is set here, from the arguments, before it is imported; the
caller's AWS settings are not looked at.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

MINISTACK = "1.5.33"
HOST = "127.0.0.1"
FUNCTIONS = Path(__file__).parent / "functions"
NODE_PACKAGES = Path(__file__).parent.parent / "node_modules"
# What the Python runtimes of Lambda bring along.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")
KEPT = ("PATH", "HOME", "LANG", "LC_ALL")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.emulator", description=__doc__)
    parser.add_argument("--account", required=True, help="account id, 12 digits")
    parser.add_argument("--region", required=True, help="region, e.g. ap-southeast-3")
    parser.add_argument("--port", type=int, required=True, help="port of the emulator on 127.0.0.1")
    parser.add_argument("--api-port", type=int, required=True, help="port where the ParallelCluster API listens")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder for everything that the emulator writes")
    parser.add_argument("--parallelcluster-version", required=True, help="e.g. 3.16.1")
    parser.add_argument("--wait-scale", type=float, default=1.0, help="factor on the waits of Step Functions")
    parser.add_argument("--seeds", type=Path, help="JSON file of what exists from the start (seeds.py)")
    parser.add_argument("--others", type=Path, help="JSON file of further accounts (launch.Account)")
    return parser.parse_args()


def environment(given: argparse.Namespace) -> dict[str, str]:
    """The whole environment of the emulator and of the functions that it starts."""
    state = given.state_dir.resolve()
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return kept | {
        "PYTHONPATH": str(FUNCTIONS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(state / "tmp"),
        "NODE_PATH": str(NODE_PACKAGES),
        "NODE_OPTIONS": f"--require {FUNCTIONS / 'loopback.js'}",
        "EMULATOR_RUNTIME_PACKAGES": str(state / "runtime"),
        "GATEWAY_PORT": str(given.port),
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "STATE_DIR": str(state),
        "MINISTACK_REGION": given.region,
        "MINISTACK_ACCOUNT_ID": given.account,
        "AUTH": "true",
        # Or it listens on every interface, port 8883.
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "INFO",
        "LAMBDA_EXECUTOR": "local",
        "SFN_WAIT_SCALE": str(given.wait_scale),
        "AWS_ACCESS_KEY_ID": given.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_REGION": given.region,
        "AWS_DEFAULT_REGION": given.region,
        "AWS_ENDPOINT_URL": f"http://{HOST}:{given.port}",
    }


def prepare(state: Path) -> None:
    """The folders of the emulator, and the packages that functions may see."""
    (state / "tmp").mkdir(parents=True, exist_ok=True)
    runtime = state / "runtime"
    runtime.mkdir(exist_ok=True)
    for name in RUNTIME_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        link = runtime / source.name
        if not link.is_symlink():
            link.symlink_to(source)


def main() -> None:
    """Set the environment, extend ministack, serve."""
    given = arguments()
    prepare(given.state_dir)
    wanted = environment(given)
    os.environ.clear()
    os.environ.update(wanted)
    sys.argv = sys.argv[:1]

    # Only now: these modules read the environment as they are imported.
    from local.emulator import extension, seeds

    found = importlib.metadata.version("ministack")
    if found != MINISTACK:
        sys.exit(
            f"emulator: ministack {found} is installed, but the emulator uses private names of {MINISTACK}: run "
            "`uv sync` in local/, or adapt local/emulator to the other version"
        )
    try:
        extension.install(given)
    except seeds.SeedError as error:
        sys.exit(f"emulator: {error}")
    from ministack import app

    app.main()


if __name__ == "__main__":
    main()
