"""`trainyard logs`: finds the logs of nodes, jobs and the cluster in CloudWatch Logs, and follows them.

A node's streams are named <host>.<instance>.<log>. The host is EC2's name: ParallelCluster configures its agent before
it renames the node (aws-parallelcluster-cookbook, write_cloudwatch_agent_json.py and recipes/init.rb). Its table in
DynamoDB has the instance of each of Slurm's nodes (pcluster 3.16.1, slurm_builder.py; aws-parallelcluster-node,
instance_manager.py).

Following polls FilterLogEvents, which is free; a live tail costs per minute and samples above 500 events a second.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from botocore.exceptions import ClientError

from ops.preflight.aws import Aws, code_of
from ops.problem import Problem
from settings.stacks import stack_name

if TYPE_CHECKING:
    from settings import Environment

TOPICS: Mapping[str, tuple[str, ...]] = {
    "cluster": (
        *("clustermgtd", "clusterstatusmgtd", "computemgtd", "slurm_resume", "slurm_suspend"),
        *("slurm_fleet_status_manager", "compute_console_output", "handler"),
    ),
    "bootstrap": (
        *("bootstrap", "bootstrap_error_msg", "cfn-init", "chef-client", "cloud-init", "cloud-init-output"),
        "compute_console_output",
    ),
    "slurm": ("slurmctld", "slurmd", "slurmdbd"),
    "health": ("health", "slurm_health_check"),
}
"""The logs of each topic. Source of ParallelCluster's names: cloudwatch_agent_config.json of the cookbook, 3.16.
`bootstrap` and `health` are files of /var/log/trainyard; `handler` is the cluster's custom resource.
"""
HEAD = "head"
JOB_STREAMS = "job_"
"""Beginning of the streams of jobs' output (cluster_assets/steps/job-logs.sh)."""
ACTIONS: tuple[str, ...] = (
    "cloudformation:ListStackResources",
    "dynamodb:Scan",
    "ec2:DescribeInstances",
    "logs:DescribeLogGroups",
    "logs:DescribeLogStreams",
    "logs:FilterLogEvents",
    "sts:GetCallerIdentity",
)
POLL_S, LATE_MS = 5.0, 60_000
"""Agents send every 5 s; events that arrive up to a minute late are still shown."""
_LAG_MS = 2 * 3_600_000
"""CloudWatch updates a stream's last event within an hour, in rare cases later (API reference, LogStream)."""
_MOST_STREAMS = 100
"""Most streams of one FilterLogEvents."""
_NODE_LOG = re.compile(r"(?P<host>[^.]+)\.(?P<instance>i-[0-9a-f]+)\.(?:trainyard[-_.])?(?P<log>.+)")
_JOB_LOG = re.compile(r"-(?P<job>\d+)(_\d+)?\.out$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Stream(NamedTuple):
    """A log of a node or a job. `last` is the time of its last event, in milliseconds since 1970."""

    group: str
    name: str
    log: str
    last: int
    node: str = ""
    host: str = ""
    instance: str = ""
    job: str = ""

    @property
    def names(self) -> set[str]:
        """What a user can call the node."""
        return {self.node, self.host, self.instance} - {""}

    @property
    def label(self) -> str:
        """What a line of this log begins with."""
        return " ".join(filter(None, (self.node or self.host, self.log)))


class Line(NamedTuple):
    """A line of a log; `time` is in milliseconds since 1970."""

    time: int
    label: str
    text: str
    id: str

    def __str__(self) -> str:
        """For a terminal: nothing in it moves the cursor or changes colours."""
        at = datetime.fromtimestamp(self.time / 1000, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%SZ} {self.label}: {_CONTROL.sub('', self.text.rstrip())}"


class Source(Protocol):
    """Where logs are."""

    def streams(self, since: int, *, job: bool) -> Iterator[Stream]:
        """Those with events after `since`; the outputs of jobs only if `job`."""

    def lines(self, streams: Sequence[Stream], since: int, words: str = "") -> Iterator[Line]:
        """Their lines after `since` that contain `words`."""


Places = list[tuple[Source, Stream]]


@dataclass(frozen=True)
class Wanted:
    """What a user asks for: the output of a job, or the logs of a topic, of a node or both."""

    topic: str = ""
    node: str = ""
    job: str = ""
    since_ms: int = 0

    def chosen(self, streams: Iterable[Stream]) -> list[Stream]:
        """The streams that match."""
        if self.job:
            return [stream for stream in streams if stream.job == self.job]
        logs = TOPICS[self.topic or "cluster"] if self.topic or not self.node else ()
        of_node = (stream for stream in streams if not self.node or self.node in stream.names)
        return [stream for stream in of_node if not logs or stream.log in logs]


class CloudWatch:
    """The log groups of an environment's cluster and of the functions that create it."""

    def __init__(self, aws: Aws, environment: Environment) -> None:
        self._aws, self._environment = aws, environment
        self._nodes = {**self._slurm_nodes(), **dict.fromkeys(self._heads(), HEAD)}
        self._groups = {**dict.fromkeys(self._handlers(), "handler"), **dict.fromkeys(self._cluster()[:1], "")}
        if not self._groups:
            raise Problem(
                f"{environment.name} has no logs in {environment.account}, {environment.region}: neither its stack "
                f"{stack_name(environment, 'api')} nor a log group /aws/parallelcluster/{environment.cluster_name}-* "
                f"exists.\nWhat is deployed: trainyard status, with the same environment and options."
            )

    def streams(self, since: int, *, job: bool) -> Iterator[Stream]:
        """See Source."""
        for group, log in self._groups.items():
            arguments = {"logGroupName": group, "orderBy": "LastEventTime", "descending": True}
            if job and not log:
                jobs = {"logGroupName": group, "logStreamNamePrefix": JOB_STREAMS}
                for item in self._aws.items("logs", "describe_log_streams", "logStreams", **jobs):
                    if found := _JOB_LOG.search(item["logStreamName"]):
                        yield Stream(group, item["logStreamName"], "job", _last(item), job=found["job"])
            for item in self._aws.items("logs", "describe_log_streams", "logStreams", **arguments):
                if _last(item) < since - _LAG_MS:
                    break
                name = item["logStreamName"]
                if log:
                    yield Stream(group, name, log, _last(item))
                elif found := _NODE_LOG.fullmatch(name):
                    yield Stream(
                        group,
                        name,
                        found["log"],
                        _last(item),
                        self._nodes.get(found["instance"], ""),
                        *found.group(1, 2),
                    )

    def lines(self, streams: Sequence[Stream], since: int, words: str = "") -> Iterator[Line]:
        """See Source."""
        for group in {stream.group for stream in streams}:
            labels = {stream.name: stream.label for stream in streams if stream.group == group}
            for first in range(0, len(labels), _MOST_STREAMS):
                names = list(labels)[first : first + _MOST_STREAMS]
                arguments = {"logGroupName": group, "logStreamNames": names, "startTime": since}
                pattern = {"filterPattern": f'"{words}"'} if words else {}
                for event in self._aws.items("logs", "filter_log_events", "events", **arguments, **pattern):
                    at, name, text = event["timestamp"], event["logStreamName"], event["message"]
                    yield Line(at, labels[name], text, event.get("eventId") or f"{name}:{at}:{text}")

    def _cluster(self) -> list[str]:
        """The log groups of clusters of this name, the newest first: a deleted cluster can leave its own."""
        prefix = f"/aws/parallelcluster/{self._environment.cluster_name}-"
        found = self._aws.items("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
        # The name ends in the minute of the cluster's creation (pcluster 3.16.1, cluster_stack.py).
        own = [item for item in found if re.fullmatch(r"\d{12}", item["logGroupName"].removeprefix(prefix))]
        return [item["logGroupName"] for item in sorted(own, key=lambda item: item["creationTime"], reverse=True)]

    def _handlers(self) -> list[str]:
        stack = {"StackName": stack_name(self._environment, "api")}
        try:
            found = list(self._aws.items("cloudformation", "list_stack_resources", "StackResourceSummaries", **stack))
        except ClientError as error:
            if "does not exist" not in str(error):
                raise
            return []
        return [
            item["PhysicalResourceId"]
            for item in found
            if item["ResourceType"] == "AWS::Logs::LogGroup" and item["LogicalResourceId"].startswith("ClusterProvider")
        ]

    def _heads(self) -> Iterator[str]:
        """Instances of the head node, also one that ended within the hour."""
        tags = {"parallelcluster:cluster-name": self._environment.cluster_name, "parallelcluster:node-type": "HeadNode"}
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        for reservation in self._aws.items("ec2", "describe_instances", "Reservations", Filters=filters):
            yield from (item["InstanceId"] for item in reservation["Instances"])

    def _slurm_nodes(self) -> dict[str, str]:
        """Slurm's name of each instance, the last one of each node."""
        table = {"TableName": f"parallelcluster-slurm-{self._environment.cluster_name}"}
        try:
            found = list(self._aws.items("dynamodb", "scan", "Items", **table))
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise
            return {}
        return {item["InstanceId"]["S"]: item["Id"]["S"] for item in found if "InstanceId" in item}


def _last(item: Mapping[str, int]) -> int:
    return max(item.get("lastEventTimestamp", 0), item["creationTime"])


def read(sources: Sequence[Source], wanted: Wanted, most: int = 0) -> list[Line]:
    """The last `most` lines, in the order of time; all of them with 0.

    Raises:
        Problem: there is no such job or node; the message says what to do.
    """
    places = _places(sources, wanted)
    if wanted.node and not wanted.chosen(stream for _, stream in places):
        known = ", ".join(sorted({stream.node or stream.host for _, stream in places} - {""})[:8]) or "none"
        raise Problem(
            f"No log of the node {wanted.node!r} in this time. Nodes with logs: {known}.\n"
            "Give a name as sinfo shows it, head, an instance id, or a longer --since. The logs of an instance that "
            "was replaced have its id, which `trainyard logs ENV cluster` shows."
        )
    found = _lines(places, wanted)
    if wanted.job and not found:
        raise Problem(
            f"No output of job {wanted.job}, and no line of slurmctld about it, in this time. Searched are outputs in "
            "the environment's folders for logs, named NAME-JOB.out, if `observability` is not off.\n"
            f"On the cluster: sacct -j {wanted.job}, scontrol show job {wanted.job} (StdOut). Or a longer --since."
        )
    return found[-most:]


def follow(
    sources: Sequence[Source],
    wanted: Wanted,
    known: Iterable[Line],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> Iterator[Line]:
    """New lines after those that are `known`, until interrupted. New nodes and jobs are found within a minute."""
    seen = {line.id: line.time for line in known}
    places, listed = _places(sources, wanted), now()
    while True:
        sleep(POLL_S)
        since = max(wanted.since_ms, int(now() * 1000) - LATE_MS)
        if now() > listed + LATE_MS / 1000:
            places, listed = _places(sources, replace(wanted, since_ms=since)), now()
        lines = _lines(places, replace(wanted, since_ms=since))
        yield from (line for line in lines if line.id not in seen)
        seen = {id: at for id, at in seen.items() if at >= since} | {line.id: line.time for line in lines}


def _places(sources: Sequence[Source], wanted: Wanted) -> Places:
    return [(source, stream) for source in sources for stream in source.streams(wanted.since_ms, job=bool(wanted.job))]


def _lines(places: Places, wanted: Wanted) -> list[Line]:
    """In the order of time; of a job also what slurmctld logged about it."""
    streams: dict[Source, list[Stream]] = {}
    for source, stream in places:
        streams.setdefault(source, []).append(stream)
    lines: list[Line] = []
    for source, own in streams.items():
        lines += source.lines(wanted.chosen(own), wanted.since_ms)
        if wanted.job:
            controller = [stream for stream in own if stream.log == "slurmctld"]
            about = f"JobId={wanted.job}"
            # CloudWatch also finds JobId=12 in JobId=123.
            exact = re.compile(rf"{about}(?!\d)").search
            lines += (line for line in source.lines(controller, wanted.since_ms, about) if exact(line.text))
    return sorted(lines, key=lambda line: line.time)
