"""Events handed to the deployed function by the test itself, and a place that takes the answers."""

from __future__ import annotations

import datetime
import json
import time
import uuid
from typing import Any

from tests.cluster_config.test_types import as_cloudformation_sends
from tests.stubs import Server

from .deployment import ACCOUNT, REGION, Base
from .template import StackSpec, template

STEP_S = 0.2


class Sender:
    """Events of one resource, as CloudFormation would send them; the stack exists in the events alone."""

    def __init__(self, base: Base, server: Server, name: str) -> None:
        self.base = base
        self.server = server
        self.stack_id = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/{uuid.uuid4()}"

    def event(
        self,
        kind: str,
        spec: StackSpec,
        *,
        old: StackSpec | None = None,
        physical_id: str | None = None,
        age_s: float = 0,
    ) -> dict[str, Any]:
        """An event that CloudFormation signed `age_s` ago."""
        sent = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_s)
        made: dict[str, Any] = {
            "RequestType": kind,
            "RequestId": str(uuid.uuid4()),
            "StackId": self.stack_id,
            # As CloudFormation would have signed it at that time.
            "ResponseURL": f"{self.server.url}?X-Amz-Date={sent:%Y%m%dT%H%M%SZ}&X-Amz-Expires=7200",
            "ResourceType": "Custom::ParallelCluster",
            "LogicalResourceId": "Cluster",
            "ResourceProperties": self._properties(spec),
        }
        if physical_id:
            made["PhysicalResourceId"] = physical_id
        if old:
            made["OldResourceProperties"] = self._properties(old)
        return made

    def send(self, event: dict[str, Any]) -> None:
        """Deliver an event as CloudFormation does: without waiting for the function."""
        functions = self.base.client("lambda")
        functions.invoke(FunctionName=self.base.service_token, InvocationType="Event", Payload=json.dumps(event))

    def ask(self, event: dict[str, Any]) -> dict[str, Any]:
        """Deliver an event and wait for its answer."""
        self.send(event)
        return self.answer(event)

    def answers(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return [body for body in self.server.bodies if body["RequestId"] == event["RequestId"]]

    def answer(self, event: dict[str, Any], limit_s: float = 300.0) -> dict[str, Any]:
        end = time.monotonic() + limit_s
        while not (found := self.answers(event)):
            assert time.monotonic() < end, f"no answer to {event['RequestType']} within {limit_s} s"
            time.sleep(STEP_S)
        return found[0]

    def _properties(self, spec: StackSpec) -> dict[str, Any]:
        resources = template(self.base, spec)["Resources"].values()
        [found] = [item["Properties"] for item in resources if item["Type"] == "Custom::ParallelCluster"]
        made: dict[str, Any] = as_cloudformation_sends(found)
        return made
