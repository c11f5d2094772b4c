"""CloudWatch alarms on what no node measures: file systems of FSx, S3 queues, reservations, the NAT gateway.

Sources of metrics and dimensions: the guides of FSx for Lustre and FSx for OpenZFS, "metrics and dimensions" (AWS/FSx);
the EC2 guide, capacity reservations (AWS/EC2CapacityReservations); the VPC guide, NAT gateways (AWS/NATGateway).
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from settings.model import Environment
from settings.model.storage import Lustre

FULL = 0.8
"""Share of a file system's capacity."""
QUEUE_S = 1800
"""Age of the oldest change that waits for its export or import. A queue in use shows a minute or two."""
UNUSED_MINUTES = 60
IDLE_MINUTES = 30
NAT_GIB = 500
"""GiB in one hour from the internet to the nodes; at $0.045 for a GB they cost about $24."""
_GIB = 2**30
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD


def runbook(environment: Environment, alarm: str) -> str:
    """Where the documentation describes an alarm or alert."""
    base, anchor = environment.observability.runbooks, alarm.lower()
    return f"{base.rstrip('/')}/runbooks/#{anchor}" if base else f"docs/runbooks.md#{anchor}"


def agent_namespace(environment: Environment) -> str:
    """Namespace of what the CloudWatch agent of nodes with GPUs publishes, with mode cloudwatch."""
    return f"Trainyard/{environment.name}"


class CloudWatchAlarms(Construct):
    """Alarms of an environment that notify its topic. ParallelCluster has its own for the head node.

    An alarm without data is not in ALARM: an unused file system publishes no queue, and a deleted reservation nothing.
    No OK actions: CloudWatch would also run them for each new alarm.

    Args:
        lustre: ids of the file systems by their names in the settings.
        openzfs: id of the OpenZFS file system, if there is one.
        nat_gateway: id of the NAT gateway, if the environment has created one.

    Attributes:
        alarms: all of them, for a dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        topic: sns.Topic,
        lustre: Mapping[str, str],
        openzfs: str | None,
        nat_gateway: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment, self._action = environment, actions.SnsAction(topic)
        self.alarms: list[cloudwatch.Alarm] = []
        storage = environment.storage
        for settings in storage.lustre:
            self._lustre(settings, lustre[settings.name])
        if storage.openzfs and openzfs:
            used = metric("AWS/FSx", "UsedStorageCapacity", {"FileSystemId": openzfs}, "Average", minutes=5)
            what = f"the OpenZFS file system {storage.openzfs.name} ({openzfs}) is over 80 % full"
            first = "df -h; users' snapshots count as well"
            self._alarm("OpenZfsFull", "", used, what, first, limit=FULL * storage.openzfs.capacity_gib * _GIB)
        reserved = {queue.capacity.reservation: queue.name for queue in environment.cluster.queues}
        for reservation, queue in reserved.items():
            if reservation is None:
                continue
            dimensions = {"CapacityReservationId": reservation}
            free = metric("AWS/EC2CapacityReservations", "AvailableInstanceCount", dimensions, "Minimum", minutes=5)
            what = f"instances of {reservation}, queue {queue}, have been unused for an hour, and are paid for"
            first = f"sinfo --partition {queue}"
            periods = UNUSED_MINUTES // 5
            self._alarm("ReservationUnused", reservation, free, what, first, limit=0, periods=periods)
        if nat_gateway:
            self._nat(nat_gateway)
        if environment.observability.mode == "cloudwatch":
            # Without a dimension: all GPUs of the environment. There is no data while no node runs.
            name = "nvidia_smi_utilization_gpu"
            busiest = metric(agent_namespace(environment), name, {}, "Maximum", minutes=5)
            what = f"nodes with GPUs run, and no GPU has worked for {IDLE_MINUTES} minutes"
            first = "squeue; sinfo: does a job hold the nodes, or the queue's min?"
            self._alarm("GpusIdle", "", busiest, what, first, limit=5, compare=_BELOW, periods=IDLE_MINUTES // 5)

    def _lustre(self, lustre: Lustre, file_system: str) -> None:
        which = f"the Lustre file system {lustre.name} ({file_system}, {lustre.mount})"
        # A point for each storage target every minute: only the sum over one minute is what is free in all.
        free = metric("AWS/FSx", "FreeDataStorageCapacity", {"FileSystemId": file_system}, "Sum", minutes=1)
        limit, first = (1 - FULL) * lustre.capacity_gib * _GIB, f"lfs df -h {lustre.mount}"
        what = f"{which} is over 80 % full"
        self._alarm("LustreFull", lustre.name, free, what, first, limit=limit, compare=_BELOW, periods=5)
        for way in ("Export", "Import"):
            if not any(getattr(item, f"{way.lower()}_events") for item in lustre.associations):
                continue
            dimensions = {"FileSystemId": file_system, "Publisher": f"Auto{way}"}
            age = metric("AWS/FSx", "AgeOfOldestQueuedMessage", dimensions, "Maximum", minutes=5)
            what = f"a change in {which} has waited over {QUEUE_S // 60} minutes for its {way.lower()}"
            first = f"aws fsx describe-data-repository-associations --filters Name=file-system-id,Values={file_system}"
            self._alarm(f"{way}QueueOld", lustre.name, age, what, first, limit=QUEUE_S, periods=3)

    def _nat(self, nat_gateway: str) -> None:
        dimensions = {"NatGatewayId": nat_gateway}
        errors = metric("AWS/NATGateway", "ErrorPortAllocation", dimensions, "Sum", minutes=5)
        what = f"the NAT gateway {nat_gateway} has no port left for new connections"
        first = "ss -s on the nodes: which one opens thousands of connections to one address?"
        self._alarm("NatPortsExhausted", "", errors, what, first, limit=0)
        traffic = metric("AWS/NATGateway", "BytesInFromDestination", dimensions, "Sum", minutes=60)
        what = f"over {NAT_GIB} GiB came through the NAT gateway {nat_gateway} in an hour"
        first = "which job downloads? Data in S3 of this region takes the free S3 endpoint"
        self._alarm("NatTraffic", "", traffic, what, first, limit=NAT_GIB * _GIB)

    def _alarm(
        self,
        kind: str,
        of: str,
        metric: cloudwatch.Metric,
        what: str,
        first: str,
        *,
        limit: float,
        compare: cloudwatch.ComparisonOperator = _ABOVE,
        periods: int = 1,
    ) -> None:
        """An alarm of a kind that docs/runbooks.md describes, on the thing `of`."""
        name, page = self._environment.name, runbook(self._environment, kind)
        alarm = cloudwatch.Alarm(
            self,
            f"{kind}-{of}" if of else kind,
            alarm_name=f"{name}-{kind}-{of}" if of else f"{name}-{kind}",
            alarm_description=f"In {name} {what}.\nFirst command: {first}\nRunbook: {page}",
            metric=metric,
            threshold=limit,
            evaluation_periods=periods,
            comparison_operator=compare,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)
        self.alarms.append(alarm)


def metric(
    namespace: str, name: str, dimensions: Mapping[str, str], statistic: str, *, minutes: int
) -> cloudwatch.Metric:
    """A metric of AWS; `minutes` is its period."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        period=Duration.minutes(minutes),
    )
