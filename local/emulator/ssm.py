"""Systems Manager: documents with their content, and commands to head nodes.

A document without parameters asks for the number of jobs, which `Control.jobs` sets. The script of any other runs on
the head node of the cluster's laboratory, a real Slurm (local/slurm/remote.py), which the first one starts.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import uuid
from functools import cache
from typing import Any

from ministack import app
from ministack.core.responses import AccountRegionScopedDict, get_account_id
from ministack.services import ec2
from ministack.services.cloudformation import provisioners

from local.emulator import head_node, instructions, processes
from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.service import ApiError

# Of the root .venv: the laboratory needs packages that local/.venv lacks.
PYTHON = processes.CHECKOUT / ".venv" / "bin" / "python"
LIMIT_S = 900
# What Systems Manager keeps of a command's output.
_STDOUT, _STDERR = 24_000, 8_000
_JSON = {"Content-Type": "application/x-amz-json-1.1"}
_answers: dict[str, dict[str, Any]] = {}
_CONTENT: Any = AccountRegionScopedDict()
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def install() -> None:
    """Provide AWS::SSM::Document, and answer commands to head nodes; every other request stays with ministack."""
    provide("AWS::SSM::Document", _create, _delete, _update)
    ssm = app.SERVICE_HANDLERS["ssm"]

    async def answer(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        if action in ("SendCommand", "GetCommandInvocation"):
            request = json.loads(body or b"{}")
            try:
                found = _send(request) if action == "SendCommand" else _answers.get(request.get("CommandId", ""))
            except ApiError as error:
                return 400, dict(_JSON), json.dumps({"__type": error.code, "message": error.message}).encode()
            if found is not None:
                return 200, dict(_JSON), json.dumps(found).encode()
        return await ssm(method, path, headers, body, query)

    app.SERVICE_HANDLERS["ssm"] = answer


def set_jobs(given: dict[str, Any]) -> None:
    """Set how many jobs a cluster has."""
    instructions.jobs[given["cluster"]] = given["count"]


def set_agent(given: dict[str, Any]) -> None:
    """Let the agent on a cluster's head node answer, or not."""
    (instructions.without_agent.discard if given["answers"] else instructions.without_agent.add)(given["cluster"])


def _send(request: dict[str, Any]) -> dict[str, Any] | None:
    instance = ec2._instances.get((request.get("InstanceIds") or [""])[0])
    if instance is None or head_node.tag(instance, "node-type") != "HeadNode":
        return None
    cluster, name = head_node.tag(instance, "cluster-name"), request.get("DocumentName", "")
    if cluster in instructions.without_agent or instance["State"]["Name"] != "running":
        where = f"Instances [[{instance['InstanceId']}]] not in a valid state for account {get_account_id()}"
        raise ApiError("InvalidInstanceId", where)
    command = str(uuid.uuid4())
    invocation = {
        "CommandId": command,
        "InstanceId": instance["InstanceId"],
        "DocumentName": name,
        "Status": "Success",
        "StatusDetails": "Success",
        "ResponseCode": 0,
        "StandardOutputContent": f"{instructions.jobs.get(cluster, 0)}\n",
        "StandardErrorContent": "",
    }
    if _parameters(name):
        script = _script(name, request.get("Parameters") or {})
        invocation |= {"Status": "InProgress", "StatusDetails": "InProgress"}
        invocation |= {"ResponseCode": -1, "StandardOutputContent": ""}
        account = get_account_id()
        head_node.in_background(lambda: invocation.update(_run(cluster, account, script)))
    _answers[command] = invocation
    return {
        "Command": {
            "CommandId": command,
            "DocumentName": name,
            "InstanceIds": [instance["InstanceId"]],
            "Status": "Pending",
        }
    }


@cache
def _scripts() -> socket.socket:
    """Start the process that runs scripts; it takes connections from this socket."""
    requests, end = socket.socketpair()
    line = [str(PYTHON), "-m", "local.slurm.remote", os.environ["STATE_DIR"], str(end.fileno())]
    with end:
        subprocess.Popen(line, cwd=processes.CHECKOUT, env=processes.kept(), pass_fds=[end.fileno()])
    return requests


def _run(cluster: str, account: str, script: str) -> dict[str, Any]:
    """The command's result from the laboratory; Delivery Timed Out if none is available."""
    connection, end = socket.socketpair()
    with connection:
        connection.settimeout(LIMIT_S)
        try:
            with end:
                socket.send_fds(_scripts(), [b"."], [end.fileno()])
            given = {"cluster": cluster, "account": account, "script": script, "limit_s": LIMIT_S}
            connection.sendall(json.dumps(given).encode() + b"\n")
            answer = json.loads(connection.makefile().read())
        except TimeoutError:
            answer = {"unavailable": f"no answer within {LIMIT_S} s"}
        except (OSError, ValueError) as problem:
            _scripts.cache_clear()  # the next command starts another
            answer = {"unavailable": f"the process that runs scripts ended, see the emulator's log ({problem})"}
    if "unavailable" in answer:
        return {
            "StandardErrorContent": f"the laboratory is not available: {answer['unavailable']}",
            "StatusDetails": "Delivery Timed Out",
            "Status": "TimedOut",
        }
    status = "Success" if answer["exit"] == 0 else "Failed"
    return {
        "ResponseCode": answer["exit"],
        "StandardOutputContent": answer["stdout"][:_STDOUT],
        "StandardErrorContent": answer["stderr"][:_STDERR],
        "StatusDetails": status,
        "Status": status,
    }


def _create(logical_id: str, properties: Properties, stack: str) -> Made:
    name = str(properties.get("Name") or provisioners._physical_name(stack, logical_id))
    _CONTENT[name] = properties["Content"]
    return name, {}


def _update(physical_id: str, _old: Properties, new: Properties) -> dict[str, Any]:
    _CONTENT[physical_id] = new["Content"]
    return {}


def _delete(physical_id: str, _properties: Properties) -> None:
    _CONTENT.pop(physical_id, None)


def _parameters(name: str) -> dict[str, Any]:
    """The parameters that a document has, by name."""
    content = _CONTENT.get(name)
    if content is None:
        raise ApiError("InvalidDocument", f"Document with name {name} does not exist.")
    return dict(content.get("parameters") or {})


def _script(name: str, given: dict[str, Any]) -> str:
    """The script of a document with the parameters of a command put in.

    Raises:
        ApiError: there is no such document, or a parameter is unknown, missing or not as the document allows.
    """
    known = _parameters(name)
    if unknown := sorted(set(given) - set(known)):
        raise ApiError("InvalidParameters", f"Parameter {unknown[0]} is not defined in the document {name}.")
    values = {}
    for key, about in known.items():
        texts = given.get(key, [about["default"]] if "default" in about else None)
        if texts is None:
            raise ApiError("InvalidParameters", f"Parameter {key} is required.")
        text = texts if isinstance(texts, str) else "\n".join(texts)
        pattern, allowed = about.get("allowedPattern"), about.get("allowedValues")
        if (pattern and not re.search(pattern, text)) or (allowed and text not in allowed):
            raise ApiError("InvalidParameters", f"Parameter {key} has a value that is not allowed: {text}")
        values[key] = text
    lines = [line for step in _CONTENT[name]["mainSteps"] for line in step["inputs"]["runCommand"]]
    return _PLACE.sub(lambda match: values.get(match.group(1), match.group(0)), "\n".join(lines)) + "\n"
