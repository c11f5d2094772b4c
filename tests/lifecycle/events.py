"""Events handed to the deployed function by the test itself, and a place that takes the answers."""

from __future__ import annotations

import datetime
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .deployment import ACCOUNT, REGION, Base
from .template import Wish, template

STEP_S = 0.2


class Answers:
    """A response URL on loopback: what was PUT to it, by RequestId."""

    def __init__(self) -> None:
        self.by_request: dict[str, list[dict[str, Any]]] = {}
        taken = self.by_request

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                taken.setdefault(body["RequestId"], []).append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, sent: datetime.datetime) -> str:
        """A response URL as CloudFormation would have signed it at that time."""
        return f"http://127.0.0.1:{self._server.server_port}/answer?X-Amz-Date={sent:%Y%m%dT%H%M%SZ}&X-Amz-Expires=7200"

    def of(self, event: dict[str, Any], limit_s: float = 300.0) -> dict[str, Any]:
        """The answer to an event."""
        end = time.monotonic() + limit_s
        while event["RequestId"] not in self.by_request:
            assert time.monotonic() < end, f"no answer to {event['RequestType']} within {limit_s} s"
            time.sleep(STEP_S)
        return self.by_request[event["RequestId"]][0]


class Sender:
    """Events of one resource, as CloudFormation would send them; the stack exists in the events alone."""

    def __init__(self, base: Base, answers: Answers, name: str) -> None:
        self.base = base
        self.answers = answers
        self.stack_id = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/{uuid.uuid4()}"

    def event(
        self,
        kind: str,
        wish: Wish,
        *,
        old: Wish | None = None,
        physical_id: str | None = None,
        age_s: float = 0,
    ) -> dict[str, Any]:
        """An event that CloudFormation signed `age_s` ago."""
        sent = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_s)
        made: dict[str, Any] = {
            "RequestType": kind,
            "RequestId": str(uuid.uuid4()),
            "StackId": self.stack_id,
            "ResponseURL": self.answers.url(sent),
            "ResourceType": "Custom::ParallelCluster",
            "LogicalResourceId": "Cluster",
            "ResourceProperties": self._properties(wish),
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
        return self.answers.of(event)

    def _properties(self, wish: Wish) -> dict[str, Any]:
        resources = template(self.base, wish)["Resources"].values()
        [found] = [item["Properties"] for item in resources if item["Type"] == "Custom::ParallelCluster"]
        made: dict[str, Any] = _as_cloudformation_sends(found)
        return made


def _as_cloudformation_sends(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _as_cloudformation_sends(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_cloudformation_sends(item) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)
