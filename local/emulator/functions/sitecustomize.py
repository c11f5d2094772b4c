"""The start of every Python function of the emulator, and of the Python programs that it starts.

Lambda gives a function its own code, the AWS SDK and HTTPS. A process here has the emulator's whole environment and a
ResponseURL in plain HTTP, so this module
- leaves of the installed packages only those that Lambda's runtime has, so that a dependency missing from the
  bundle is missing here too;
- maps HTTPS to the emulator's own address to HTTP: callers that PUT to the ResponseURL by HTTPS whatever it says
  (crhelper, as ParallelCluster's own functions do) would never be heard;
- cuts the waits of ParallelCluster's clean-up functions: nodes here are gone at once, so 40 s would be spent on
  nothing;
- maps /opt, where Lambda unpacks layers, to where they are unpacked here (the AWS CLI of CDK's BucketDeployment).
"""

import http.client
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

RUNTIME = os.environ.get("EMULATOR_RUNTIME_PACKAGES", "")
LAYERS = [path for path in os.environ.get("_LAMBDA_LAYERS_DIRS", "").split(os.pathsep) if path]
ENDPOINT = urlsplit(os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"))

# Lambda passes a function the name of its log.
os.environ.setdefault("AWS_LAMBDA_LOG_GROUP_NAME", f"/aws/lambda/{os.environ.get('AWS_LAMBDA_FUNCTION_NAME', '')}")

if RUNTIME:
    sys.path[:] = [path for path in sys.path if not path.endswith("site-packages")] + [RUNTIME]


# Methods are replaced, not classes: http.client names its own class in super().
_connect_by_tls = http.client.HTTPSConnection.connect


def _connect(self):
    if self.host == ENDPOINT.hostname:
        self.port = ENDPOINT.port
        http.client.HTTPConnection.connect(self)
    else:
        _connect_by_tls(self)


http.client.HTTPSConnection.connect = _connect


def _unpacked(argument):
    if isinstance(argument, str) and argument.startswith("/opt/") and not os.path.exists(argument):
        for layer in LAYERS:
            found = os.path.join(layer, argument[len("/opt/") :])
            if os.path.exists(found):
                return found
    return argument


_start_program = subprocess.Popen.__init__


def _start(self, args, *rest, **named):
    # Programs out of layers: unpacking loses the executable bit, and their first line names Lambda's Python.
    if isinstance(args, (list, tuple)) and args:
        command = [_unpacked(argument) for argument in args]
        if command[0] != args[0]:
            with open(command[0], "rb") as program:
                if b"python" in program.readline():
                    command = [sys.executable, *command]
        args = command
    _start_program(self, args, *rest, **named)


subprocess.Popen.__init__ = _start

if os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "").startswith("pcluster-Cleanup"):
    _sleep = time.sleep
    time.sleep = lambda seconds: _sleep(min(seconds, 0.2))
