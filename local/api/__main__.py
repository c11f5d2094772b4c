"""Serve the genuine ParallelCluster API: `python -m local.api --state-dir FOLDER PORT` with parallelcluster/.venv.
`--state-dir` marks the process for `local.emulator.processes`.

This is what runs in the API's Lambda function on AWS: pcluster's own Flask application, unchanged. Who may call is
decided before it, by the API Gateway of the emulator (local/emulator/public_template.py).
"""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

import boto3.session
from botocore.client import ClientCreator
from pcluster.api.flask_app import ParallelClusterFlaskApp
from pcluster.templates import import_cdk
from werkzeug.serving import make_server

# pcluster makes a session for each call to AWS, to ask it for the region (aws/common.py, _log_boto3_calls): half of its
# CPU time.
boto3.session.Session = functools.cache(boto3.session.Session)  # type: ignore[assignment,misc]

# It also makes clients for each request, which is half of the rest: botocore builds their class again each time.
_creator: Any = ClientCreator
_build, _classes = _creator._create_client_class, dict[str, type]()
_creator._create_client_class = lambda creator, service, model: (
    _classes.get(service) or _classes.setdefault(service, _build(creator, service, model))
)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [%(name)s] %(message)s")
    # In a thread, and not in the first creation: it takes seconds, and API Gateway waits no longer than 30.
    import_cdk.start()
    application = ParallelClusterFlaskApp(swagger_ui=False).flask_app
    # One request at a time: pcluster's validators use the main thread's event loop.
    make_server("127.0.0.1", int(sys.argv[-1]), application, threaded=False).serve_forever()
