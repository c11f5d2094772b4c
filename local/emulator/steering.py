"""What clients asked the emulator to do otherwise (local/steering), and the interface that takes their wishes.

It listens at /_local/steering of the emulator's address: POST outcomes, faults, limits and the orders of `install`; GET
the wishes that are not used up, or calls; DELETE all.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import json
from collections.abc import Callable
from typing import Any

from ministack import app
from ministack.core import lambda_runtime

from local.steering.client import PREFIX
from local.steering.gate import Application, Gate, Queue, Receive, Scope, Send
from local.steering.model import Fault, Limit, Operation, Outcome, SteeringError, read

Order = Callable[[dict[str, Any]], dict[str, Any]]

_outcomes: Queue[Outcome] = Queue()
_faults: Queue[Fault] = Queue()
_limits: dict[str, Limit] = {}


def outcome(cluster: str, operation: Operation) -> Outcome | None:
    """How this operation on a cluster is to end, counted as used; None where nobody asked for anything."""
    return _outcomes.take(lambda wish: (wish.cluster, wish.operation) == (cluster, operation))


def limit(stack: str) -> Limit:
    """How long a stack waits."""
    return _limits.get(stack) or Limit(stack)


def install(orders: dict[str, Order], in_scope: contextvars.Context) -> None:
    """Put the gate and the interface in front of the emulator.

    Args:
        orders: what POST /_local/steering/<name> does.
        in_scope: the account and the region of the emulator, in which orders are carried out.
    """
    app.app = _Interface(Gate(app.app, _faults, _kill_functions), orders, in_scope)


def _kill_functions(part: str) -> None:
    """End the processes of busy functions whose handler's name has this part, as a crash would."""
    with lambda_runtime._lock:
        workers = [worker for pool in lambda_runtime._workers.values() for worker in pool if worker.in_use]
    for worker in workers:
        process = worker._proc
        if part in str(worker.config.get("Handler", "")) and process is not None:
            process.kill()


class _Interface:
    def __init__(self, gate: Gate, orders: dict[str, Order], in_scope: contextvars.Context) -> None:
        self._gate = gate
        self._inner: Application = gate
        self._orders = orders
        self._scope = in_scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._inner(scope, receive, send)
            return
        body, more = b"", True
        while more and (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            more = message.get("more_body", False)
        try:
            # In a thread: orders call the emulator, which must stay free to answer.
            status, answer = 200, await asyncio.to_thread(self._answer, scope, body)
        except (SteeringError, ValueError, KeyError) as error:
            status, answer = 400, {"message": str(error)}
        content = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, scope: Scope, body: bytes) -> dict[str, Any]:
        name = scope["path"].removeprefix(PREFIX).strip("/")
        match scope["method"], name:
            case "DELETE", "":
                for wishes in (_outcomes, _faults, _limits, self._gate.calls):
                    wishes.clear()
                return {}
            case "GET", "":
                return {
                    "outcomes": [dataclasses.asdict(item) for item in _outcomes.pending()],
                    "faults": [dataclasses.asdict(item) for item in _faults.pending()],
                }
            case "GET", "calls":
                return {"calls": [dataclasses.asdict(call) for call in list(self._gate.calls)]}
            case "POST", _:
                # A page in a browser cannot send this type without a preflight request.
                if dict(scope["headers"]).get(b"content-type") != b"application/json":
                    raise SteeringError("the content type must be application/json")
                return self._post(name, json.loads(body))
        raise SteeringError(f"{scope['method']} {scope['path']} does not exist; see docs/testing.md")

    def _post(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name == "outcomes":
            _outcomes.add(read(Outcome, given))
        elif name == "faults":
            _faults.add(read(Fault, given))
        elif name == "limits":
            wish = read(Limit, given)
            _limits[wish.stack] = wish
        elif name in self._orders:
            return self._scope.copy().run(self._orders[name], given)
        else:
            allowed = ", ".join(("outcomes", "faults", "limits", *self._orders))
            raise SteeringError(f"{name!r} cannot be steered; allowed are {allowed}")
        return {}
