"""The instructions of clients (local/control), and the interface that takes them.

It listens at /_local/control of the emulator's address: POST outcomes, faults, limits and what has a handler in
`install`; GET the faults that are not used up, calls, or credentials of the ParallelCluster API; DELETE all.
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

from local.control.client import PREFIX
from local.control.gate import Gate, Queue, Receive, Scope, Send, body_of, respond
from local.control.model import Fault, InvalidInstruction, Limit, Operation, Outcome, read
from local.emulator import service_sessions

Handler = Callable[[dict[str, Any]], Any]

_outcomes: Queue[Outcome] = Queue()
_faults: Queue[Fault] = Queue()
_limits: dict[str, Limit] = {}
jobs: dict[str, int] = {}
without_agent: set[str] = set()
"""Numbers of jobs, and head nodes whose agent does not answer, by cluster."""


def outcome(cluster: str, operation: Operation) -> Outcome | None:
    """How this operation on a cluster is to end, counted as used; None where nobody asked for anything."""
    return _outcomes.take(lambda one: (one.cluster, one.operation) == (cluster, operation))


def limit(stack: str) -> Limit:
    """How long a stack waits."""
    return _limits.get(stack) or Limit(stack)


def _set_limit(given: dict[str, Any]) -> None:
    instruction = read(Limit, given)
    _limits[instruction.stack] = instruction


def install(handlers: dict[str, Handler], in_scope: contextvars.Context) -> None:
    """Put the gate and the interface in front of the emulator.

    Args:
        handlers: what POST /_local/control/<name> does.
        in_scope: the account and the region of the emulator, in which the handlers run.
    """
    app.app = _Interface(Gate(app.app, _faults, _kill_functions), handlers, in_scope)


def _kill_functions(part: str) -> None:
    """End the processes of busy functions whose handler's name has this part, as a crash would."""
    with lambda_runtime._lock:
        workers = [worker for pool in lambda_runtime._workers.values() for worker in pool if worker.in_use]
    for worker in workers:
        process = worker._proc
        if part in str(worker.config.get("Handler", "")) and process is not None:
            process.kill()


class _Interface:
    def __init__(self, gate: Gate, handlers: dict[str, Handler], in_scope: contextvars.Context) -> None:
        self._gate = gate
        self._scope = in_scope
        self._handlers: dict[str, Handler] = {
            "outcomes": lambda given: _outcomes.add(read(Outcome, given)),
            "faults": lambda given: _faults.add(read(Fault, given)),
            "limits": _set_limit,
            **handlers,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._gate(scope, receive, send)
            return
        body = await body_of(receive)
        try:
            # In a thread: handlers call the emulator, which must stay free to answer.
            status, answer = 200, await asyncio.to_thread(self._answer, scope, body)
        except (ValueError, KeyError) as error:
            status, answer = 400, {"message": str(error)}
        await respond(send, status, json.dumps(answer).encode())

    def _answer(self, scope: Scope, body: bytes) -> Any:
        name = scope["path"].removeprefix(PREFIX).strip("/")
        match scope["method"], name:
            case "DELETE", "":
                for kept in (_outcomes, _faults, _limits, jobs, without_agent, self._gate.calls):
                    kept.clear()
                return {}
            case "GET", "calls":
                return [dataclasses.asdict(call) for call in list(self._gate.calls)]
            case "GET", "faults":
                return [dataclasses.asdict(fault) for fault in _faults.pending()]
            case "GET", _ if name.startswith("api-session/"):
                return self._scope.copy().run(service_sessions.of_api, name.partition("/")[2])
            case "POST", _ if name in self._handlers:
                # A page in a browser cannot send this type without a preflight request.
                if dict(scope["headers"]).get(b"content-type") != b"application/json":
                    raise InvalidInstruction("the content type must be application/json")
                return self._scope.copy().run(self._handlers[name], json.loads(body))
        allowed = ", ".join(self._handlers)
        raise InvalidInstruction(f"{scope['method']} {scope['path']} does not exist; POST takes {allowed}")
