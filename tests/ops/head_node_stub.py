"""An account with a head node: clients whose answers botocore's Stubber queues, and checks against AWS's API."""

from __future__ import annotations

import json
from typing import Any

import boto3
from botocore.stub import Stubber

from ops.validation.head_node import DELIVERY_S

HEAD, COMMAND = "i-0123456789abcdef0", "11111111-2222-3333-4444-555555555555"


class HeadNodeStub:
    """Clients that answer what was queued and nothing else; `sent` has the input of each action that was called."""

    def __init__(self, part: str, environment: str = "local", endpoint: str | None = None) -> None:
        self.parameter = f"/trainyard/{environment}/{part}/document"
        self.document = f"{environment}-cluster-{part.title()}"
        self.filters = [
            {"Name": "tag:parallelcluster:cluster-name", "Values": [environment]},
            {"Name": "tag:parallelcluster:node-type", "Values": ["HeadNode"]},
        ]
        session: Any = boto3.Session("key", "secret", region_name="us-east-1")
        services = ("ec2", "s3", "sns", "ssm")
        self.clients = {name: session.client(name, endpoint_url=endpoint) for name in services}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        self.sent: dict[str, dict[str, Any]] = {}
        for name, client in self.clients.items():
            self.stubs[name].activate()
            client.meta.events.register("before-parameter-build", self._note)

    def _note(self, params: dict[str, Any], model: Any, **_rest: object) -> None:  # noqa: ANN401 - botocore's own
        self.sent[f"{model.service_model.signing_name}:{model.name}"] = dict(params)

    def client(self, name: str) -> Any:  # noqa: ANN401 - as boto3's session
        return self.clients[name]

    def has_parameter(self, name: str, value: str) -> None:
        self.stubs["ssm"].add_response("get_parameter", {"Parameter": {"Value": value}}, {"Name": name})

    def deployed(self, *states: str) -> None:
        """A document, and an instance with each of the states."""
        self.has_parameter(self.parameter, self.document)
        found = [{"InstanceId": HEAD[:-1] + str(index), "State": {"Name": name}} for index, name in enumerate(states)]
        answer = {"Reservations": [{"Instances": found}]}
        self.stubs["ec2"].add_response("describe_instances", answer, {"Filters": self.filters})

    def answers(self, request: str, status: str = "Success", *, out: object = "", err: str = "", code: int = 0) -> None:
        stub = self.stubs["ssm"]
        wanted = {
            "InstanceIds": [HEAD], "DocumentName": self.document, "Parameters": {"Request": [request]},
            "TimeoutSeconds": DELIVERY_S,
        }  # fmt: skip
        stub.add_response("send_command", {"Command": {"CommandId": COMMAND}}, wanted)
        stub.add_client_error("get_command_invocation", "InvocationDoesNotExist")
        for now in ("Pending", "InProgress", status):
            answer = {"Status": now, "StatusDetails": now, "ResponseCode": code, "StandardErrorContent": err}
            answer["StandardOutputContent"] = json.dumps(out)
            stub.add_response("get_command_invocation", answer, {"CommandId": COMMAND, "InstanceId": HEAD})

    def ended(self) -> None:
        """Every queued answer was taken."""
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()
