"""What can be steered, as JSON values. Standard library only: the emulator and its clients both import this."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

Operation = Literal["create", "update", "delete", "fleet-start", "fleet-stop"]
Result = Literal["succeed", "fail", "silent"]
Target = Literal["api", "response", "signal"]
Then = Literal["answer", "drop", "kill", "pass"]

FOREVER = 0


class SteeringError(ValueError):
    """A wish that cannot be: the message names the field, what was given and what is allowed."""


@dataclass(frozen=True)
class Outcome:
    """How an operation on a cluster ends.

    Attributes:
        cluster: name of the cluster.
        operation: create and update end with the head node's signal, delete with the deletion of the cluster's
            resources, fleet-start and fleet-stop with the fleet's status.
        result: fail with `reason`; silent: no signal is sent, or the fleet's status never settles (a delete cannot be
            silent); succeed: only the delay counts.
        reason: what a failure says.
        delay_s: seconds that pass before the end.
        times: operations that end so before the outcome is used up; 0: all of them.
    """

    cluster: str
    operation: Operation
    result: Result = "fail"
    reason: str = "steered to fail"
    delay_s: float = 0.0
    times: int = 1

    def __post_init__(self) -> None:
        _one_of("operation", self.operation, get_args(Operation))
        _one_of("result", self.result, get_args(Result))
        if self.operation == "delete" and self.result == "silent":
            raise SteeringError("result is 'silent' for a delete; allowed are succeed (with delay_s) and fail")
        _not_negative(self, "delay_s", "times")


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
        status: HTTP status of an answer.
        message: message of an answer.
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
    function: str = "cluster_resource.work"

    def __post_init__(self) -> None:
        _one_of("target", self.target, get_args(Target))
        _one_of("then", self.then, get_args(Then))
        _not_negative(self, "after", "times", "delay_s")
        for name in ("method", "path"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                raise SteeringError(f"{name} is {getattr(self, name)!r}, no regular expression: {error}") from error
        if self.then == "pass" and not self.forward:
            raise SteeringError("then is 'pass' without forward; allowed are answer, drop and kill")
        if not 400 <= self.status <= 599:
            raise SteeringError(f"status is {self.status}; allowed are 400 to 599")


@dataclass(frozen=True)
class Limit:
    """How long one stack waits, in seconds, in place of what its template says; None leaves that as it is.

    Attributes:
        stack: name of the stack.
        custom_resource_s: for a custom resource's answer (ServiceTimeout, an hour where the template has none).
        wait_condition_s: for the signals of a wait condition (Timeout).
        begun_s_ago: Step Functions reports executions that work for the stack as begun so much earlier.
    """

    stack: str
    custom_resource_s: float | None = None
    wait_condition_s: float | None = None
    begun_s_ago: float = 0

    def __post_init__(self) -> None:
        for name in ("custom_resource_s", "wait_condition_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SteeringError(f"{name} is {value}; allowed are more than 0 seconds, and null")
        _not_negative(self, "begun_s_ago")


@dataclass(frozen=True)
class Call:
    """A request that passed the gate: `path` as in Fault, `status` 0 where the connection was dropped."""

    target: Target
    method: str
    path: str
    status: int
    fault: bool


_Wish = TypeVar("_Wish", Outcome, Fault, Limit)


def read(kind: type[_Wish], given: object) -> _Wish:
    """A wish out of JSON.

    Raises:
        SteeringError: an unknown field, a missing one, or a value that is not allowed.
    """
    if not isinstance(given, Mapping):
        raise SteeringError(f"{kind.__name__} must be a JSON object")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise SteeringError(f"{kind.__name__} has no {', '.join(unknown)}; allowed are {', '.join(fields)}")
    values: dict[str, Any] = dict(given)
    for name, value in values.items():
        allowed = _TYPES[str(fields[name].type)]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise SteeringError(f"{kind.__name__}.{name} is {value!r}; it must be {fields[name].type}")
    try:
        return kind(**values)
    except TypeError as error:
        raise SteeringError(f"{kind.__name__}: {error}") from error


_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "float | None": (int, float, type(None)),
    **dict.fromkeys(("Operation", "Result", "Target", "Then"), (str,)),
}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SteeringError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")


def _not_negative(wish: object, *names: str) -> None:
    for name in names:
        if getattr(wish, name) < 0:
            raise SteeringError(f"{name} is {getattr(wish, name)}; allowed are 0 and more")
