"""Serve the genuine ParallelCluster API: `python -m local.api --state-dir FOLDER PORT` with parallelcluster/.venv.
`--state-dir` marks the process for `local.emulator.processes`.

This is what runs in the API's Lambda function on AWS: pcluster's own Flask application, unchanged. Who may call is
decided before it, by the API Gateway of the emulator (local/emulator/public_template.py).
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import sys
from typing import Any

import boto3.session
from pcluster.api.flask_app import ParallelClusterFlaskApp
from pcluster.aws import common
from pcluster.templates import import_cdk
from werkzeug.serving import make_server

# pcluster makes a session for each call to AWS, to ask it for the region (aws/common.py, _log_boto3_calls): half of its
# CPU time.
boto3.session.Session = functools.cache(boto3.session.Session)  # type: ignore[assignment,misc]

# It also makes clients for each request: a quarter of the rest. Kept whole, because it adds its logger to each.
_make, _made = common.Boto3Client.__init__, dict[str, Any]()


def _init(self: Any, *given: object, **named: object) -> None:  # noqa: ANN401 - a class without types
    key = f"{os.environ.get('AWS_DEFAULT_REGION')} {given} {named}"
    if key not in _made:
        _make(self, *given, **named)
        _made[key] = self._client
    self._client = _made[key]


common.Boto3Client.__init__ = _init

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [%(name)s] %(message)s")
    # In a thread, and not in the first creation: it takes seconds, and API Gateway waits no longer than 30.
    import_cdk.start()
    application = ParallelClusterFlaskApp(swagger_ui=False).flask_app
    # What is loaded by now is never garbage. To search it again and again took 8 % of the CPU time.
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
    # One request at a time: pcluster's validators use the main thread's event loop.
    make_server("127.0.0.1", int(sys.argv[-1]), application, threaded=False).serve_forever()
