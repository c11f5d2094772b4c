"""`Control` gives instructions to a running emulator: for tests, `trainyard up` and `trainyard promote`."""

from __future__ import annotations

import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol

from local.control.model import Call, Fault, Limit, Operation, Outcome

PREFIX = "/_local/control"
_TIMEOUT_S = 30


class InstructionRefused(Exception):
    """The emulator did not take an instruction; the message is the emulator's."""


class HasEndpoint(Protocol):
    """An emulator, as far as its control needs it."""

    @property
    def endpoint(self) -> str: ...


class Control:
    """Gives instructions to one emulator."""

    def __init__(self, emulator: HasEndpoint) -> None:
        self._base = emulator.endpoint + PREFIX

    def reset(self) -> None:
        """Remove outcomes, faults, limits, numbers of jobs, agents that do not answer, and the recorded calls."""
        self._request("DELETE", "")

    def outcome(self, outcome: Outcome) -> None:
        """Decide how an operation on a cluster ends."""
        self._post("outcomes", **dataclasses.asdict(outcome))

    def fault(self, fault: Fault) -> None:
        """Put a fault in the way of requests."""
        self._post("faults", **dataclasses.asdict(fault))

    def limit(self, limit: Limit) -> None:
        """Change how long a stack waits, in place of its template."""
        self._post("limits", **dataclasses.asdict(limit))

    def seeds(self, seeds: Mapping[str, object], account: str = "", region: str = "") -> None:
        """Add to what an account contains (local/emulator/seeds.py); by default the emulator's first account."""
        self._post("seeds", seeds=dict(seeds), account=account, region=region)

    def fleet(self, cluster: str, status: str) -> None:
        """Set the status of a cluster's compute fleet now: RUNNING, STOPPED, PROTECTED..."""
        self._post("fleet", cluster=cluster, status=status)

    def nodes(self, cluster: str, queue: str, compute_resource: str, count: int, instance_type: str) -> None:
        """Start compute nodes of a cluster, as slurmctld would for jobs."""
        tags = {"queue-name": queue, "compute-resource-name": compute_resource}
        self._post("nodes", cluster=cluster, tags=tags, count=count, instance_type=instance_type)

    def jobs(self, cluster: str, count: int) -> None:
        """Set the number of jobs that a cluster's head node reports."""
        self._post("jobs", cluster=cluster, count=count)

    def agent(self, cluster: str, *, answers: bool) -> None:
        """Let Systems Manager find an agent on the head node of a cluster, or none."""
        self._post("agent", cluster=cluster, answers=answers)

    def session(self, role_arn: str, service: str, source_arn: str) -> dict[str, str]:
        """A session of a role that a service takes on for a resource: key, secret, token."""
        found: dict[str, str] = self._post("session", role_arn=role_arn, service=service, source_arn=source_arn)
        return found

    def calls(self) -> list[Call]:
        """The requests to the ParallelCluster API since the last reset, oldest first."""
        return [Call(**item) for item in self._request("GET", "calls")]

    def unused(self) -> list[Fault]:
        """Faults that are not used up."""
        return [Fault(**item) for item in self._request("GET", "faults")]

    def fail_create(self, cluster: str, reason: str, *, after_s: float = 0) -> None:
        """The head node of the next cluster of this name signals a failure."""
        self.outcome(Outcome(cluster, "create", "fail", reason, after_s))

    def fail_update(self, cluster: str, reason: str, *, after_s: float = 0) -> None:
        """The head node signals a failure at the next update, and the cluster rolls back."""
        self.outcome(Outcome(cluster, "update", "fail", reason, after_s))

    def fail_delete(self, cluster: str, reason: str, *, after_s: float = 0) -> None:
        """The next deletion of the cluster ends in DELETE_FAILED."""
        self.outcome(Outcome(cluster, "delete", "fail", reason, after_s))

    def delay(self, cluster: str, operation: Operation, seconds: float) -> None:
        """The next operation takes that much longer, and ends well."""
        self.outcome(Outcome(cluster, operation, "succeed", "", seconds))

    def _post(self, name: str, **instruction: object) -> Any:  # noqa: ANN401 - JSON
        return self._request("POST", name, instruction)

    def _request(self, method: str, name: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(  # noqa: S310 - the emulator's address on loopback
            f"{self._base}/{name}", data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise InstructionRefused(json.load(error)["message"]) from error
