"""What the emulator was asked to do otherwise (local/steering), and the admin interface that takes such wishes.

The interface listens at /_local/steering of the emulator's address: POST outcomes, faults, limits, fleet, nodes; GET
what is still to come, or calls; DELETE all.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any

from ministack import app
from ministack.core import lambda_runtime

from local.faults.gate import Application, Gate, Receive, Scope, Send
from local.faults.rules import Rules
from local.steering.client import PREFIX
from local.steering.model import FOREVER, Fault, Limit, Operation, Outcome, SteeringError, read


class Outcomes:
    """The outcomes that were asked for; safe to use from several threads."""

    def __init__(self) -> None:
        self._left: list[tuple[Outcome, int]] = []
        self._lock = threading.Lock()

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            self._left.append((outcome, outcome.times))

    def clear(self) -> None:
        with self._lock:
            self._left.clear()

    def pending(self) -> list[Outcome]:
        with self._lock:
            return [outcome for outcome, _ in self._left]

    def take(self, cluster: str, operation: Operation) -> Outcome | None:
        """The outcome of this operation, counted as used; None where nothing was asked for."""
        with self._lock:
            for index, (outcome, left) in enumerate(self._left):
                if (outcome.cluster, outcome.operation) != (cluster, operation):
                    continue
                if left != FOREVER:
                    self._left[index] = (outcome, left - 1)
                    if left == 1:
                        del self._left[index]
                return outcome
        return None


outcomes = Outcomes()
rules = Rules()
limits: dict[str, Limit] = {}
Order = Callable[[dict[str, Any]], dict[str, Any]]


def kill_functions(part: str) -> None:
    """End the processes of functions at work whose handler's name has this part, as a crash would."""
    with lambda_runtime._lock:
        workers = [worker for pool in lambda_runtime._workers.values() for worker in pool if worker.in_use]
    for worker in workers:
        process = worker._proc
        if part in str(worker.config.get("Handler", "")) and process is not None:
            process.kill()


def install(orders: dict[str, Order], in_scope: contextvars.Context) -> None:
    """Put the gate and the admin interface in front of the emulator.

    Args:
        orders: what POST /_local/steering/<name> does beside the wishes of this module.
        in_scope: the account and the region of the emulator, in which orders are carried out.
    """
    gate = Gate(app.app, rules, kill_functions)
    app.app = _Admin(gate, orders, in_scope)


class _Admin:
    def __init__(self, gate: Gate, orders: dict[str, Order], in_scope: contextvars.Context) -> None:
        self._gate: Gate = gate
        self._inner: Application = gate
        self._orders = orders
        self._scope = in_scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._inner(scope, receive, send)
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            # Orders call the emulator itself, which must stay free to answer.
            status, answer = 200, await asyncio.to_thread(self._answer, scope, body)
        except (SteeringError, ValueError, KeyError) as error:
            status, answer = 400, {"message": str(error)}
        content = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, scope: Scope, body: bytes) -> dict[str, Any]:
        name = scope["path"].removeprefix(PREFIX).strip("/")
        if scope["method"] == "DELETE" and not name:
            outcomes.clear()
            rules.clear()
            limits.clear()
            self._gate.calls.clear()
            return {}
        if scope["method"] == "GET" and not name:
            return {
                "outcomes": [dataclasses.asdict(item) for item in outcomes.pending()],
                "faults": [dataclasses.asdict(item) for item in rules.pending()],
            }
        if scope["method"] == "GET" and name == "calls":
            return {"calls": [dataclasses.asdict(call) for call in list(self._gate.calls)]}
        if scope["method"] != "POST":
            raise SteeringError(f"no {scope['method']} of {scope['path']}; see local/README.md")
        # A page in a browser cannot send this type without asking first.
        if dict(scope["headers"]).get(b"content-type") != b"application/json":
            raise SteeringError("the content type must be application/json")
        return self._post(name, json.loads(body))

    def _post(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name == "outcomes":
            outcomes.add(read(Outcome, given))
        elif name == "faults":
            rules.add(read(Fault, given))
        elif name == "limits":
            limit = read(Limit, given)
            limits[limit.stack] = limit
        elif name in self._orders:
            return self._scope.copy().run(self._orders[name], given)
        else:
            raise SteeringError(
                f"{name!r} cannot be steered; allowed are outcomes, faults, limits, {', '.join(self._orders)}"
            )
        return {}
