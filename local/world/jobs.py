"""The jobs of a cluster, as its head node tells them where it is asked through Systems Manager: a number, steered."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ministack import app
from ministack.services import ec2

from local.world import fleet

_JSON = {"Content-Type": "application/x-amz-json-1.1"}
_counts: dict[str, int] = {}
_answers: dict[str, dict[str, Any]] = {}


def install() -> None:
    """Answer commands to head nodes; every other request stays with ministack."""
    ssm = app.SERVICE_HANDLERS["ssm"]

    async def answer(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        if action in ("SendCommand", "GetCommandInvocation"):
            request = json.loads(body or b"{}")
            found = _send(request) if action == "SendCommand" else _answers.get(request.get("CommandId", ""))
            if found is not None:
                return 200, dict(_JSON), json.dumps(found).encode()
        return await ssm(method, path, headers, body, query)

    app.SERVICE_HANDLERS["ssm"] = answer


def order(given: dict[str, Any]) -> dict[str, Any]:
    """Set how many jobs a cluster has."""
    _counts[str(given["cluster"])] = int(given["count"])
    return {}


def _send(request: dict[str, Any]) -> dict[str, Any] | None:
    instance = ec2._instances.get((request.get("InstanceIds") or [""])[0])
    if instance is None or fleet.tag(instance, "parallelcluster:node-type") != "HeadNode":
        return None
    command = str(uuid.uuid4())
    count = _counts.get(fleet.tag(instance, "parallelcluster:cluster-name"), 0)
    _answers[command] = {
        "CommandId": command,
        "InstanceId": instance["InstanceId"],
        "DocumentName": request.get("DocumentName", ""),
        "Status": "Success",
        "StatusDetails": "Success",
        "ResponseCode": 0,
        "StandardOutputContent": f"{count}\n",
        "StandardErrorContent": "",
    }
    return {
        "Command": {
            "CommandId": command,
            "DocumentName": request.get("DocumentName", ""),
            "InstanceIds": [instance["InstanceId"]],
            "Status": "Pending",
        }
    }
