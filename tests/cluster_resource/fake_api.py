"""A ParallelCluster API in memory: records the requests, and lets clusters live a small, steered life."""

from dataclasses import dataclass, field, replace

from cluster_resource.api import Accepted, ApiError, Change, ClusterView, StackEvent
from cluster_resource.identity import OWNER_TAG
from tests.cluster_resource.events import tags_of

_NEXT = {
    "CREATE_IN_PROGRESS": "CREATE_COMPLETE",
    "ROLLBACK_IN_PROGRESS": "ROLLBACK_COMPLETE",
    "UPDATE_IN_PROGRESS": "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_ROLLBACK_COMPLETE",
    "DELETE_IN_PROGRESS": "DELETE_COMPLETE",
}
# The API's own mapping (pcluster.api.converters); what is not in it is shown as it is.
_SHOWN = {
    "ROLLBACK_IN_PROGRESS": "CREATE_FAILED",
    "ROLLBACK_FAILED": "CREATE_FAILED",
    "ROLLBACK_COMPLETE": "CREATE_FAILED",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_IN_PROGRESS",
    "UPDATE_ROLLBACK_FAILED": "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE": "UPDATE_FAILED",
}
_BUSY = tuple(_NEXT)


@dataclass
class Cluster:
    """A cluster's stack, its deployed configuration, and the one it had before an update."""

    name: str
    stack_status: str
    configuration: str = "{}"
    former: str = "{}"
    tags: dict[str, str] = field(default_factory=dict)
    version: str = "3.16.1"


class FakeApi:
    """`ClusterApi`. Each look at a busy cluster moves it one status on.

    Attributes:
        outcomes: what becomes of a status, where that is not success: `{"CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS"}`.
        faults: exceptions for the coming calls of a method; the flag tells whether the work is done all the same.
    """

    def __init__(self, *clusters: Cluster) -> None:
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.faults: dict[str, list[tuple[Exception, bool]]] = {}
        self.frozen = False
        self.version = "3.16.1"
        self.events: tuple[StackEvent, ...] = ()

    @property
    def changing(self) -> list[tuple[str, str]]:
        """The requests that change something, or would."""
        return [request for request in self.requests if request[0] not in ("describe", "events", "logs")]

    def describe(self, name: str) -> ClusterView | None:
        self.requests.append(("describe", name))
        self._fault("describe")
        cluster = self.clusters.get(name)
        if cluster is None:
            return None
        view = _view(cluster)
        if cluster.stack_status in _BUSY and not self.frozen:
            self._move(cluster)
        return view

    def create(self, name: str, configuration: str) -> Accepted:
        self.requests.append(("create", name))
        self.bodies.append(configuration)

        def work() -> None:
            if name in self.clusters:
                raise ApiError(400, f"Bad Request: Cluster {name} already exists.")
            self.clusters[name] = Cluster(
                name, "CREATE_IN_PROGRESS", configuration, tags=tags_of(configuration), version=self.version
            )

        self._fault("create", work)
        return Accepted(version=self.version)

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        self.requests.append(("dry run" if dry_run else "update", name))
        self.bodies.append(configuration)

        def work() -> None:
            cluster = self.clusters.get(name)
            if cluster is None:
                raise ApiError(404, f"Cluster '{name}' does not exist.")
            if cluster.stack_status in _BUSY:
                raise ApiError(409, f"Cannot execute update while stack is in {cluster.stack_status} status.")
            if cluster.configuration == configuration:
                raise ApiError(400, "Bad Request: No changes found in your cluster configuration.")
            if dry_run:
                changes = (Change("Scheduling.SlurmQueues[q].ComputeResources[c].MaxCount", "2", "4"),)
                raise ApiError(412, "Request would have succeeded, but DryRun flag is set.", changes=changes)
            cluster.former, cluster.configuration = cluster.configuration, configuration
            cluster.stack_status = "UPDATE_IN_PROGRESS"

        self._fault("update", work)
        return Accepted(version=self.version)

    def delete(self, name: str) -> None:
        self.requests.append(("delete", name))

        def work() -> None:
            if name not in self.clusters:
                raise ApiError(404, f"Cluster '{name}' does not exist.")
            self.clusters[name].stack_status = "DELETE_IN_PROGRESS"

        self._fault("delete", work)

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        self.requests.append(("events", name))
        return self.events

    def log_group(self, name: str) -> str | None:
        self.requests.append(("logs", name))
        return f"/aws/parallelcluster/{name}-202611210800"

    def _fault(self, method: str, work: object = None) -> None:
        faults = self.faults.get(method)
        fault, done = faults.pop(0) if faults else (None, True)
        if callable(work) and done:
            work()
        if fault:
            raise fault

    def _move(self, cluster: Cluster) -> None:
        cluster.stack_status = self.outcomes.get(cluster.stack_status, _NEXT[cluster.stack_status])
        if cluster.stack_status == "DELETE_COMPLETE":
            del self.clusters[cluster.name]
        if cluster.stack_status == "UPDATE_ROLLBACK_COMPLETE":
            cluster.configuration = cluster.former


def _view(cluster: Cluster) -> ClusterView:
    failed = cluster.stack_status in ("ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
    view = ClusterView(
        name=cluster.name,
        status=_SHOWN.get(cluster.stack_status, cluster.stack_status),
        stack_status=cluster.stack_status,
        stack_arn=f"arn:aws:cloudformation:us-east-1:123456789012:stack/{cluster.name}/1",
        version=cluster.version,
        tags=cluster.tags,
        failures=(("OnNodeConfiguredExecutionFailure", "Failed to execute OnNodeConfigured script."),)
        if failed
        else (),
    )
    if cluster.stack_status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        view = replace(view, head_node_instance_id="i-0123456789abcdef0", head_node_private_ip="10.0.0.10")
    return view


def foreign(name: str, stack_status: str = "CREATE_COMPLETE") -> Cluster:
    """A cluster that somebody else owns."""
    return Cluster(name, stack_status, tags={OWNER_TAG: "arn:aws:cloudformation:us-east-1:1:stack/other/1/Cluster"})
