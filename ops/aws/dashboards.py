"""`trainyard connect --dashboards`: Grafana and Prometheus of an environment.

On the monitoring host they listen on loopback. Port forwarding of Systems Manager reaches them, so no port is open and
IAM decides who may: `ssm:StartSession` on the instance with the document AWS-StartPortForwardingSession.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ops.aws.connect import TOOLS
from ops.problem import Problem
from settings.stacks import HOST_TAG, stack_name

if TYPE_CHECKING:
    import boto3
    from rich.console import Console

    from settings import Environment

PORTS = {"Grafana": 3000, "Prometheus": 9090, "Alertmanager": 9093}


def open_dashboards(account: boto3.Session, environment: Environment, console: Console) -> None:
    """Print where the dashboards are; with a host of their own, forward its ports until Ctrl-C.

    Raises:
        Problem: mode off, the stack or the host is missing, a tool is missing, a port is in use, or a session ended.
    """
    mode, name = environment.observability.mode, environment.name
    if mode == "off":
        raise Problem(f"{name} has no dashboards: observability is off in its file. Set a mode and deploy.")
    if mode != "self-hosted":
        for key, value in _outputs(account, environment).items():
            console.print(f"{key}: {value}", soft_wrap=True, highlight=False)
        return
    instance = host(account, environment)
    if missing := [TOOLS[tool] for tool in ("aws", "session-manager-plugin") if shutil.which(tool) is None]:
        raise Problem("Missing on this machine:\n" + "\n".join(missing))
    for what, port in PORTS.items():
        _check_free(what, port)
    sessions: list[subprocess.Popen[bytes]] = []
    # Like Ctrl-C: the sessions, which have groups of their own, must not stay and hold the ports.
    for name_of_signal in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name_of_signal, signal.default_int_handler)
    try:
        for what, port in PORTS.items():
            words = session(environment, instance, port)
            console.print(f"{what}: http://localhost:{port}   ({shlex.join(words)})", soft_wrap=True, highlight=False)
            # What the plugin prints, errors as well, is on its standard output.
            sessions.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True))
        console.print("Ctrl-C ends the sessions.")
        while all(process.poll() is None for process in sessions):
            time.sleep(0.5)
    except KeyboardInterrupt:
        return
    finally:
        for process in sessions:
            # With its plugin, which a signal to `aws` does not reach.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    raise Problem("A session ended, so all were: its message is above. Try again: trainyard connect --dashboards")


def _check_free(what: str, port: int) -> None:
    """Raises a Problem if the port is in use: another program would answer in the session's place."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise Problem(
            f"Port {port} of this machine, for {what}, is in use ({error.strerror}). End what listens there, "
            "for example another `connect --dashboards` or a laboratory (trainyard lab down)."
        ) from error


def host(account: boto3.Session, environment: Environment) -> str:
    """The id of the running monitoring host.

    Raises:
        Problem: there is none.
    """
    filters: Any = [
        {"Name": f"tag:{HOST_TAG}", "Values": [environment.name]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    reservations = account.client("ec2").describe_instances(Filters=filters)["Reservations"]
    found = [instance["InstanceId"] for reservation in reservations for instance in reservation["Instances"]]
    if not found:
        raise Problem(
            f"No monitoring host of {environment.name} runs in {environment.account}, {environment.region}.\n"
            f"Deploy the stack {stack_name(environment, 'observability')} (trainyard up). Its Auto Scaling group "
            "replaces a broken host within minutes, and lists failed launches under Activity."
        )
    return found[0]


def session(environment: Environment, instance: str, port: int) -> list[str]:
    """The command that forwards a port of the host to the same port of this machine."""
    ports = json.dumps({"portNumber": [str(port)], "localPortNumber": [str(port)]})
    document = ["--document-name", "AWS-StartPortForwardingSession", "--parameters", ports]
    return ["aws", "ssm", "start-session", "--region", environment.region, "--target", instance, *document]


def _outputs(account: boto3.Session, environment: Environment) -> Mapping[str, str]:
    """The stack's outputs that are addresses, by name."""
    client, name = account.client("cloudformation"), stack_name(environment, "observability")
    try:
        [stack] = client.describe_stacks(StackName=name)["Stacks"]
    except client.exceptions.ClientError as error:
        # CloudFormation's code for a stack that does not exist.
        advice = " Deploy it first: trainyard up" if error.response["Error"]["Code"] == "ValidationError" else ""
        raise Problem(f"The stack {name} cannot be read: {error}.{advice}") from error
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", ()) if "Description" in item}
