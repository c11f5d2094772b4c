"""A ParallelCluster API in memory that records the requests.

It answers as the genuine API of 3.16.1 does: statuses, refusals and their order, what an update may change under a
running fleet.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from cluster_resource.api import OWNER_TAG, Accepted, ApiError, Change, ClusterView, Message, StackEvent
from tests.cluster_resource.events import OWNER, properties, tags_of, text_of

_NEXT = {
    "CREATE_IN_PROGRESS": "CREATE_COMPLETE",
    "ROLLBACK_IN_PROGRESS": "ROLLBACK_COMPLETE",
    "UPDATE_IN_PROGRESS": "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_ROLLBACK_COMPLETE",
    "DELETE_IN_PROGRESS": "DELETE_COMPLETE",
}
# The API's own mapping (pcluster.api.converters); what is not in it is shown as it is.
SHOWN_STATUS = {
    "ROLLBACK_IN_PROGRESS": "CREATE_FAILED",
    "ROLLBACK_FAILED": "CREATE_FAILED",
    "ROLLBACK_COMPLETE": "CREATE_FAILED",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_IN_PROGRESS",
    "UPDATE_ROLLBACK_FAILED": "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE": "UPDATE_FAILED",
}
_WORKING = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
_FLEET_NEXT = {
    "START_REQUESTED": "STARTING",
    "STARTING": "RUNNING",
    "STOP_REQUESTED": "STOPPING",
    "STOPPING": "STOPPED",
}
MAX_COUNT = "Scheduling.SlurmQueues[q].ComputeResources[c].MaxCount"
STOP_OR_TERMINATE = (
    "All compute nodes must be stopped or QueueUpdateStrategy must be set to TERMINATE. Stop the compute fleet or set"
    " QueueUpdateStrategy:TERMINATE in config to remove nodes from the scheduler, terminate the associated instances &"
    " any running jobs"
)
NEVER = "Update actions are not currently supported for the 'Os' parameter. Restore 'Os' value to 'alinux2023'."
OFFICIAL = ApiError(412, "Request would have succeeded, but DryRun flag is set.")


@dataclass
class Cluster:
    """A cluster's stack, its deployed configuration, and the one it had before an update.

    `number` makes the ARN of its stack unique, as CloudFormation's stack ids are.
    """

    name: str
    stack_status: str
    configuration: str = "{}"
    former: str = "{}"
    tags: dict[str, str] = field(default_factory=dict)
    version: str = "3.16.1"
    fleet: str = "RUNNING"
    compute_nodes: int = 0
    head: bool = True
    number: int = 0


class FakeApi:
    """`ClusterApi`. Each look at a busy cluster or fleet moves it one status on.

    Attributes:
        outcomes: what becomes of a status, where that is not success: `{"CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS"}`.
        faults: exceptions for the coming calls of a method; with a flag, whether the work is done all the same: at once
            (True), or after `late_looks` looks, as by a function that works on after its gateway answered 504 ("late").
        fleet_of_new: the fleet's status when a cluster has been created.
        created: the clusters that the present event created.
        invalid: the message of a validator that refuses every configuration.
    """

    def __init__(self, *clusters: Cluster, **settings: Any) -> None:  # noqa: ANN401 - the attributes
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.faults: dict[str, list[Exception | tuple[Exception, bool | str]]] = {}
        self.frozen = False
        self.version = "3.16.1"
        self.shown_version: str | None = "3.16.1"
        self.fleet_of_new = "RUNNING"
        self.created: list[Cluster] = []
        self._number = 0
        self.late_looks = 1
        self._late: list[tuple[int, Callable[[], None]]] = []
        self.invalid = ""
        self.events: tuple[StackEvent, ...] = ()
        self.messages: tuple[Message, ...] = ()
        vars(self).update(settings)

    @property
    def changing(self) -> list[tuple[str, str]]:
        """The requests that change something."""
        looks = ("describe", "events", "logs", "fleet", "nodes", "version", "dry run", "dry create")
        return [request for request in self.requests if request[0] not in looks]

    def describe(self, name: str) -> ClusterView | None:
        self.requests.append(("describe", name))
        self._fault("describe")
        cluster = self.clusters.get(name)
        view = _view(cluster) if cluster else None
        self._look_at_late_work()
        if cluster is None:
            return None
        if cluster.stack_status in _NEXT and not self.frozen:
            cluster.stack_status = self.outcomes.get(cluster.stack_status, _NEXT[cluster.stack_status])
            if cluster.stack_status == "DELETE_COMPLETE":
                del self.clusters[name]
            if cluster.stack_status == "UPDATE_ROLLBACK_COMPLETE":
                cluster.configuration = cluster.former
        return view

    def _look_at_late_work(self) -> None:
        due = [work for looks, work in self._late if looks <= 1]
        self._late = [(looks - 1, work) for looks, work in self._late if looks > 1]
        for work in due:
            with suppress(ApiError):
                work()

    def do_late_work(self) -> None:
        while self._late:
            self._look_at_late_work()

    def begin_event(self, *, in_flight: bool = False) -> None:
        """`in_flight`: the event before was cancelled, and its calls may still be carried out."""
        if not in_flight:
            self.do_late_work()
        self.created = []

    def create(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        self.requests.append(("dry create" if dry_run else "create", name))
        self.bodies.append(configuration)
        created = self.created

        def work() -> None:
            if name in self.clusters:
                raise ApiError(400, f"Bad Request: Cluster {name} already exists.")
            self._validate()
            if dry_run:
                raise OFFICIAL
            self._number += 1
            self.clusters[name] = Cluster(
                name,
                "CREATE_IN_PROGRESS",
                configuration,
                tags=tags_of(configuration),
                version=self.version,
                fleet=self.fleet_of_new,
                number=self._number,
            )
            created.append(self.clusters[name])

        self._fault("create", work)
        return Accepted(self.version, self.messages)

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        what = "dry run" if dry_run else "update"
        self.requests.append((what, name))
        self.bodies.append(configuration)

        def work() -> None:
            cluster = self._existing(name)
            if cluster.stack_status in _NEXT:
                raise ApiError(409, f"Cannot execute update while stack is in {cluster.stack_status} status.")
            self._validate()
            if cluster.configuration == configuration:
                raise ApiError(400, "Bad Request: No changes found in your cluster configuration.")
            changes = changes_between(cluster.configuration, configuration)
            refused = tuple(
                change
                for change in changes
                if change.message and not (cluster.fleet == "STOPPED" and "compute nodes" in change.message)
            )
            if refused:
                raise ApiError(400, "Update failure", refused=refused, changes=changes)
            if dry_run:
                raise ApiError(412, OFFICIAL.message, changes=tuple(replace(change, message="") for change in changes))
            cluster.former, cluster.configuration = cluster.configuration, configuration
            cluster.stack_status = "UPDATE_IN_PROGRESS"

        self._fault(what, work)
        return Accepted(self.version)

    def delete(self, name: str) -> None:
        self.requests.append(("delete", name))

        def work() -> None:
            self._existing(name).stack_status = "DELETE_IN_PROGRESS"

        self._fault("delete", work)

    def fleet(self, name: str) -> str:
        self.requests.append(("fleet", name))
        self._fault("fleet")
        cluster = self._existing(name)
        status = cluster.fleet
        if not self.frozen:
            cluster.fleet = _FLEET_NEXT.get(status, status)
        return status

    def request_fleet(self, name: str, *, running: bool) -> None:
        self.requests.append(("start" if running else "stop", name))

        def work() -> None:
            cluster = self._existing(name)
            if cluster.stack_status not in _WORKING:
                raise ApiError(400, f"Cannot change compute fleet while stack is in {cluster.stack_status} status.")
            cluster.fleet = "START_REQUESTED" if running else "STOP_REQUESTED"
            cluster.compute_nodes = cluster.compute_nodes if running else 0

        self._fault("request_fleet", work)

    def compute_nodes(self, name: str) -> int:
        self.requests.append(("nodes", name))
        self._fault("compute_nodes")
        # The API lists instances by the cluster's tag and does not ask whether the cluster exists
        # (pcluster.api.controllers.cluster_instances_controller).
        return self.clusters[name].compute_nodes if name in self.clusters else 0

    def api_version(self, os: str) -> str | None:
        self.requests.append(("version", os))
        self._fault("api_version")
        return self.shown_version

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        self.requests.append(("events", name))
        return self.events

    def log_group(self, name: str) -> str | None:
        self.requests.append(("logs", name))
        return f"/aws/parallelcluster/{name}-202611210800"

    def _existing(self, name: str) -> Cluster:
        if name not in self.clusters:
            raise ApiError(404, f"Cluster '{name}' does not exist.")
        return self.clusters[name]

    def _validate(self) -> None:
        if self.invalid:
            raise ApiError(400, f"Invalid cluster configuration: {self.invalid}")

    def _fault(self, method: str, work: Callable[[], None] = lambda: None) -> None:
        faults = self.faults.get(method)
        given = faults.pop(0) if faults else (None, True)
        fault, done = (given, False) if isinstance(given, Exception) else given
        if done == "late":
            self._late.append((self.late_looks, work))
        elif done:
            work()
        if fault:
            raise fault


def changes_between(current: str, wanted: str) -> tuple[Change, ...]:
    """The changes of the two keys that the tests change; the message is the API's reason where it refuses one."""
    (old, old_os, _), (new, new_os, strategy) = _keys(current), _keys(wanted)
    changes: list[Change] = []
    if old != new:
        shrinks = new < old and strategy != "TERMINATE"
        changes.append(Change(MAX_COUNT, str(old), str(new), STOP_OR_TERMINATE if shrinks else ""))
    if old_os != new_os:
        changes.append(Change("Image.Os", old_os, new_os, NEVER))
    return tuple(changes) or (Change("Tags", "-", "-"),)


def _keys(text: str) -> tuple[int, str, str]:
    """MaxCount, Os and QueueUpdateStrategy."""
    given = json.loads(text)
    queue = given["Scheduling"]["SlurmQueues"][0]
    strategy = given["Scheduling"].get("SlurmSettings", {}).get("QueueUpdateStrategy", "DRAIN")
    return queue["ComputeResources"][0]["MaxCount"], given["Image"]["Os"], strategy


def _view(cluster: Cluster) -> ClusterView:
    status = SHOWN_STATUS.get(cluster.stack_status, cluster.stack_status)
    script = ("OnNodeConfiguredExecutionFailure", "Failed to execute OnNodeConfigured script.")
    head = cluster.stack_status in _WORKING and cluster.head
    return ClusterView(
        name=cluster.name,
        status=status,
        stack_status=cluster.stack_status,
        stack_arn=f"arn:aws:cloudformation:us-east-1:123456789012:stack/{cluster.name}/{cluster.number}",
        version=cluster.version,
        tags=cluster.tags,
        head_node_instance_id="i-0123456789abcdef0" if head else None,
        head_node_private_ip="10.0.0.10" if head else None,
        failures=(script,) if status == "CREATE_FAILED" else (),
    )


def foreign(name: str, stack_status: str = "CREATE_COMPLETE") -> Cluster:
    """A cluster that somebody else owns."""
    return Cluster(name, stack_status, tags={OWNER_TAG: "arn:aws:cloudformation:us-east-1:1:stack/other/1/Cluster"})


def owned(stack_status: str = "CREATE_COMPLETE", name: str = "local", max_count: int = 2, **others: Any) -> Cluster:  # noqa: ANN401 - fields of Cluster
    """A cluster of the resource under test, with the configuration of `events.properties`."""
    text = text_of(properties(name, max_count))
    return Cluster(name, stack_status, text, former=text, tags={OWNER_TAG: OWNER}, **others)
