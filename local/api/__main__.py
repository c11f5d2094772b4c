"""Serve the genuine ParallelCluster API: `python -m local.api --help`, with the interpreter of parallelcluster/.venv.

This is what runs in the API's Lambda function on AWS: pcluster's own Flask application, unchanged. Who may call is
decided before it, by the API Gateway of the emulator (local/emulator/public_template.py).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

HOST = "127.0.0.1"
KEPT = ("PATH", "HOME", "LANG", "LC_ALL")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.api", description=__doc__)
    parser.add_argument("--account", required=True, help="account id, 12 digits")
    parser.add_argument("--region", required=True, help="region, e.g. ap-southeast-3")
    parser.add_argument("--port", type=int, required=True, help="port of the API on 127.0.0.1")
    parser.add_argument("--endpoint", required=True, help="address of the emulator")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder for everything that the API writes")
    return parser.parse_args()


def main() -> None:
    """Set the environment, serve."""
    given = arguments()
    scratch = given.state_dir.resolve() / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    os.environ.clear()
    os.environ.update(
        kept
        | {
            "AWS_ENDPOINT_URL": given.endpoint,
            "AWS_ACCESS_KEY_ID": given.account,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": given.region,
            "AWS_DEFAULT_REGION": given.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "TMPDIR": str(scratch),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        }
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [%(name)s] %(message)s")

    # Only now: pcluster reads the environment.
    from pcluster.api.flask_app import ParallelClusterFlaskApp
    from pcluster.templates import import_cdk
    from werkzeug.serving import make_server

    # In a thread, and not in the first creation: it takes seconds, and API Gateway waits no longer than 30.
    import_cdk.start()

    application = ParallelClusterFlaskApp(swagger_ui=False).flask_app
    try:
        # One request at a time: pcluster's validators use the main thread's event loop.
        server = make_server(HOST, given.port, application, threaded=False)
    except OSError as error:
        sys.exit(f"ParallelCluster API: port {given.port}: {error}")
    server.serve_forever()


if __name__ == "__main__":
    main()
