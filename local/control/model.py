"""The instructions, as JSON values. Standard library only: the emulator and its clients both import this."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

Operation = Literal["create", "update", "delete", "fleet-start", "fleet-stop"]
Result = Literal["succeed", "fail", "silent"]
Target = Literal["api", "response", "signal"]
Then = Literal["answer", "drop", "kill", "pass"]


class InvalidInstruction(ValueError):
    """An instruction that is refused: the message names the field, what was given and what is allowed."""


@dataclass(frozen=True)
class Outcome:
    """How an operation on a cluster ends.

    Attributes:
        operation: create and update end with the head node's signal, delete with the deletion of the cluster's
            resources, fleet-start and fleet-stop with the fleet's status.
        result: fail with `reason`; silent: no signal is sent, or the fleet's status never settles (a delete cannot be
            silent); succeed: only the delay counts.
        delay_s: seconds that pass before the end.
        times: operations that end so before the outcome is used up; 0: all of them.
    """

    cluster: str
    operation: Operation
    result: Result = "fail"
    reason: str = "failure set by local.control"
    delay_s: float = 0.0
    times: int = 1
    after: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.operation == "delete" and self.result == "silent":
            raise InvalidInstruction("result is 'silent' for a delete; allowed are succeed (with delay_s) and fail")


@dataclass(frozen=True)
class Fault:
    """What happens to requests between the functions and what they call.

    Attributes:
        target: api: the ParallelCluster API; response: CloudFormation's response URL of custom resources; signal: the
            signal URL of wait conditions.
        method: regular expression that the whole HTTP method matches.
        path: regular expression found in the path, for the API without stage and with the query
            (/v3/clusters/demo?region=us-east-1); for a response the query ends in x-stack=<name of the stack>.
        after: matching requests that pass before the first fault.
        times: requests that are hit before the fault is used up; 0: all of them.
        forward: the request is carried out first, and its answer thrown away or changed.
        then: answer with `status` and `message`; drop the connection in the middle of the answer; kill the process
            of the function that asks; pass the answer on (needs `forward`).
        delay_s: seconds before whatever `then` says.
        version: with pass: every "version" in the answer becomes this.
        function: part of the handler's name of functions to kill.
    """

    target: Target = "api"
    method: str = ".*"
    path: str = ".*"
    after: int = 0
    times: int = 1
    forward: bool = False
    then: Then = "answer"
    delay_s: float = 0.0
    status: int = 500
    message: str = "Internal server error"
    version: str = ""
    function: str = "cluster_resource.handler"

    def __post_init__(self) -> None:
        for name in ("method", "path"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                given = getattr(self, name)
                raise InvalidInstruction(f"{name} is {given!r}, no regular expression: {error}") from error
        if self.then == "pass" and not self.forward:
            raise InvalidInstruction("then is 'pass' without forward; allowed are answer, drop and kill")

    def hits(self, target: Target, method: str, path: str) -> bool:
        """Whether a request is meant."""
        return bool(self.target == target and re.fullmatch(self.method, method) and re.search(self.path, path))


@dataclass(frozen=True)
class Limit:
    """How long one stack waits, in seconds, in place of what its template says; None leaves that as it is.

    Attributes:
        custom_resource_s: for a custom resource's answer (ServiceTimeout, an hour where the template has none).
        wait_condition_s: for the signals of a wait condition (Timeout).
        begun_s_ago: Step Functions reports executions that work for the stack as begun so much earlier.
    """

    stack: str
    custom_resource_s: float | None = None
    wait_condition_s: float | None = None
    begun_s_ago: float = 0


@dataclass(frozen=True)
class Call:
    """A request to the API that passed the gate: `path` as in Fault, `status` 0 where the connection was dropped."""

    method: str
    path: str
    status: int
    fault: bool


_Instruction = TypeVar("_Instruction", Outcome, Fault, Limit)


def read(kind: type[_Instruction], given: dict[str, Any]) -> _Instruction:
    """An instruction from JSON. Raises InvalidInstruction for an unknown or missing field, or a value not allowed."""
    try:
        instruction = kind(**given)
    except TypeError as error:
        raise InvalidInstruction(f"{kind.__name__}: {error}") from error
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal and getattr(instruction, name) not in get_args(hint):
            allowed = ", ".join(get_args(hint))
            raise InvalidInstruction(f"{name} is {getattr(instruction, name)!r}; allowed are {allowed}")
    return instruction
