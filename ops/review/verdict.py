"""The verdict on a change."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from cluster_resource.policies import effect
from ops.cost.change import Change
from ops.review import cluster as clusters
from ops.review import resources
from ops.review.cluster import Cluster, Key, Need, Outcome
from ops.review.data_loss import LOST, is_shorter
from ops.review.resources import Effect, ResourceChange
from ops.review.shares import ShareChange
from ops.review.shares import changes as changes_of_shares
from ops.review.stacks import Stack, Stacks

# Replacing or removing one of these interrupts running jobs, although it has no data.
_INTERRUPTING = ("AWS::EC2::", "AWS::FSx::")
_LOG_GROUP = "AWS::Logs::LogGroup"
_REFUSED = {
    resources.DATABASE: "refused while the cluster stack imports its address: see docs/accounting.md, Restore",
    "AWS::FSx::FileSystem": "refused: it cannot change this way. See docs/storage.md, Replace a file system",
    resources.ASSOCIATION: "refused: FSx has no two of one folder or prefix. See docs/storage.md, Associations with S3",
}
_CLUSTER_LOGS = "Monitoring.Logs.CloudWatch.RetentionInDays"
# ParallelCluster's default.
_CLUSTER_LOG_DAYS = 180


class Level(IntEnum):
    """Also the exit status of the command."""

    NOTHING = 0
    SAFE = 1
    DISRUPTIVE = 2
    DESTRUCTIVE = 3


@dataclass(frozen=True)
class Reason:
    """One reason for a level, in words."""

    level: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """The verdict on one environment.

    Attributes:
        against: what it was compared with, in words.
        new_stacks: names of stacks that are not deployed yet.
        left_stacks: names of deployed stacks that the app no longer has; they stay as they are.
        shares: changes of teams, qualities of service and reservations.
        outside: what was changed outside CloudFormation, or cannot be updated, in words.
        unread: what of that could not be read, in words.
        cost: what the change costs, if that was asked.
    """

    environment: str
    against: str
    cluster: Cluster
    resources: tuple[ResourceChange, ...]
    new_stacks: tuple[str, ...]
    left_stacks: tuple[str, ...]
    shares: tuple[ShareChange, ...] = ()
    outside: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    cost: Change | None = None

    @property
    def data(self) -> tuple[ResourceChange, ...]:
        """Resources with data that are replaced, removed or refused, or whose data expire sooner.

        Of replaced or removed log groups, only those whose logs are lost.
        """
        return tuple(
            change
            for change in self.resources
            if change.expires
            or (
                change.stateful
                and (change.gone or change.effect is Effect.REFUSED)
                and (change.type != _LOG_GROUP or change.data_disposition.startswith(LOST))
            )
        )

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the level, the highest level first."""
        found = [*_of_data(self), *_of_cluster(self.cluster), *_of_shares(self.shares), *_of_resources(self)]
        found += [Reason(Level.DISRUPTIVE, text) for text in self.outside]
        return tuple(sorted(found, key=lambda reason: -reason.level))

    @property
    def level(self) -> Level:
        return max((reason.level for reason in self.reasons), default=Level.NOTHING)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if not self.reasons:
            return "NOTHING: the deployment is what the file says"
        decisive = [reason.text for reason in self.reasons if reason.level is self.level]
        return f"{self.level.name}: {'; '.join(decisive)}"


def judge(environment: str, against: str, old: Stacks, new: Stacks) -> Verdict:
    """Compare two sides of one environment. Raises Problem where a tool that this needs is not installed."""
    # A stack with another name, region or account is another stack: the old one stays.
    paired = {key: stack for key, stack in old.items() if key in new and _place(new[key]) == _place(stack)}
    changed = resources.changes(paired, new)
    replaced = {(change.stack, change.logical_id) for change in changed if change.effect is Effect.REPLACED}
    return Verdict(
        environment,
        against,
        clusters.compare(paired, new, replaced),
        tuple(changed),
        tuple(stack.name for key, stack in new.items() if key not in paired),
        tuple(stack.name for key, stack in old.items() if key not in paired),
        tuple(changes_of_shares(paired, new)),
    )


def _place(stack: Stack) -> tuple[str, str, str]:
    return stack.name, stack.region, stack.account


def meaning(key: Key, cluster: Cluster) -> str:
    """What a changed key of the configuration means for this cluster."""
    if key.ignored:
        return "not counted as a change; it says how later changes are made"
    done = effect(key.needs, cluster.updates or {})
    if key.needs in (Need.FLEET, Need.FLEET_AND_LOGIN):
        return _of_the_fleet(key, cluster, done)
    if done:
        return f"impossible in place: {done}"
    return {
        Need.NOTHING: "in place, while jobs run",
        Need.LOGIN: "needs the login nodes stopped: an update to count 0 before it",
        Need.HEAD: "needs the head node stopped",
        Need.NEW_CLUSTER: "impossible without a new cluster: refused (cluster.updates.replace is never)",
    }[key.needs]


def _of_the_fleet(key: Key, cluster: Cluster, done: str) -> str:
    if cluster.strategy in key.strategies:
        how = "ended at once" if cluster.strategy == "TERMINATE" else "drained"
        return f"needs its nodes {how}, which QueueUpdateStrategy {cluster.strategy} does"
    means = "needs the compute fleet stopped"
    if key.needs is Need.FLEET_AND_LOGIN:
        means = "needs the compute fleet and the login nodes stopped"
    if key.strategies:
        means += f", or QueueUpdateStrategy {' or '.join(key.strategies)}"
    error = " (HTTP 500)" if key.internal_error else ""
    return f"{means}; {done or f'refused{error} while it runs'}"


def _of_data(verdict: Verdict) -> Iterator[Reason]:
    for change in verdict.data:
        if change.effect is Effect.REFUSED:
            text = f"{label(change)} cannot change this way ({', '.join(change.causes)}): the deployment fails"
        elif change.expires:
            text = f"{label(change)}: {', '.join(change.expires)}"
        else:
            text = f"{label(change)} {change.effect}, {_contents(change)} {change.data_disposition}"
        yield Reason(Level.DESTRUCTIVE, text)


def _of_cluster(cluster: Cluster) -> Iterator[Reason]:
    blocked = [key.path for key in cluster.keys if key.needs is Need.NEW_CLUSTER]
    stopping = [key.path for key in cluster.keys if key.needs not in (Need.NOTHING, Need.NEW_CLUSTER)]
    in_place = [key for key in cluster.keys if key.needs is Need.NOTHING]
    for key in cluster.keys:
        if key.path == _CLUSTER_LOGS and is_shorter(key.old or _CLUSTER_LOG_DAYS, key.new or _CLUSTER_LOG_DAYS):
            text = f"logs of the cluster are kept for {key.new or _CLUSTER_LOG_DAYS} days instead of "
            yield Reason(Level.DESTRUCTIVE, f"{text}{key.old or _CLUSTER_LOG_DAYS}")
    for name in cluster.deleted:
        jobs = f", and {cluster.jobs[name]}" if name in cluster.jobs else ""
        yield Reason(Level.DESTRUCTIVE, f"the cluster {name} is deleted{jobs}")
    if cluster.outcome is Outcome.OTHER_VERSION:
        yield Reason(Level.DESTRUCTIVE, f"a cluster of ParallelCluster {cluster.version} cannot get another version")
    if cluster.outcome is Outcome.DISPLACED:
        text = f"another resource is to create the cluster {cluster.name}, which is refused while it exists"
        yield Reason(Level.DESTRUCTIVE, text)
    if cluster.outcome is Outcome.RESUMED:
        text = f"the predecessor {cluster.name} becomes the cluster again, and gets the file's configuration"
        yield Reason(Level.DISRUPTIVE, text)
    if blocked:
        yield Reason(Level.DESTRUCTIVE, f"impossible without a new cluster: {_few(blocked)}")
    if stopping:
        yield Reason(Level.DISRUPTIVE, f"nodes must be stopped or drained: {_few(stopping)}")
    if in_place:
        yield Reason(Level.SAFE, f"{_count(len(in_place), 'key')} of the cluster changed in place")
    if cluster.outcome is Outcome.CREATED:
        others = f", next to {', '.join(cluster.predecessors)}" if cluster.predecessors else ""
        yield Reason(Level.SAFE, f"the cluster {cluster.name} is created{others}")


def _of_shares(changes: tuple[ShareChange, ...]) -> Iterator[Reason]:
    for change in changes:
        if change.takes:
            yield Reason(Level.DISRUPTIVE, f"{change.subject} {change.text}: {change.takes}")
    if rest := sum(not change.takes for change in changes):
        yield Reason(Level.SAFE, f"{_count(rest, 'change')} of shares, without an update of the cluster")


def _of_resources(verdict: Verdict) -> Iterator[Reason]:
    data = {(change.stack, change.logical_id) for change in verdict.data}
    rest = [change for change in verdict.resources if (change.stack, change.logical_id) not in data]
    for change in rest:
        if change.effect is Effect.REFUSED:
            yield Reason(Level.DESTRUCTIVE, f"CloudFormation refuses {label(change)}: {', '.join(change.causes)}")
        elif change.gone and change.type.startswith(_INTERRUPTING):
            yield Reason(Level.DISRUPTIVE, f"{label(change)} {change.effect}")
        elif change.type == clusters.TYPE and any(one.path.startswith("Hooks") for one in change.differences):
            text = "nodes that start later run them, running nodes keep the former ones until they are replaced"
            yield Reason(Level.DISRUPTIVE, f"hooks changed: {text}")
        elif change.type == resources.DATABASE and any(one.path == "EngineVersion" for one in change.differences):
            yield Reason(Level.DISRUPTIVE, f"{label(change)} is upgraded: it is away for some minutes")
    if rest:
        yield Reason(Level.SAFE, f"{_count(len(rest), 'resource')} added or changed")
    if verdict.left_stacks:
        text = "stay as they are, with their cluster and data, until they are destroyed with the former file"
        yield Reason(Level.DISRUPTIVE, f"another environment: {_few(list(verdict.left_stacks))} {text}")
    if verdict.new_stacks:
        yield Reason(Level.SAFE, f"new stacks: {', '.join(verdict.new_stacks)}")


def label(change: ResourceChange) -> str:
    """A resource as reports name it."""
    kind = change.type.split("::", 1)[1].replace("::", " ")
    return f"{kind} {change.name}"


def at_stake(change: ResourceChange) -> str:
    """What happens to a resource with data."""
    if change.effect is Effect.REFUSED:
        why = " while other stacks import its name or id" if change.imported else ": it cannot change this way"
        return _REFUSED.get(change.type, f"refused{why}")
    return ", ".join(change.expires) or f"{change.effect}; {_contents(change)} {change.data_disposition}"


def _contents(change: ResourceChange) -> str:
    return "logs" if change.type == _LOG_GROUP else "data"


def _few(paths: list[str], most: int = 4) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
