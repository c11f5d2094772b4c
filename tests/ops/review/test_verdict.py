"""The level and the words of verdicts, on hand-made changes. No synthesis, no process: `make mutants` runs these."""

from dataclasses import replace
from typing import Any

import pytest

from ops.review import cluster as clusters
from ops.review import resources
from ops.review.cluster import Cluster, Key, Need, Outcome
from ops.review.resources import Effect, ResourceChange
from ops.review.stacks import Stack
from ops.review.structure import Difference
from ops.review.verdict import Level, Verdict, at_stake, judge, label, meaning

LOGS = "AWS::Logs::LogGroup"
NO_CLUSTER = Cluster("", Outcome.NONE)


def verdict_of(*changes: ResourceChange, cluster: Cluster = NO_CLUSTER, new: tuple[str, ...] = ()) -> Verdict:
    return Verdict("dev", "before", cluster, changes, new, ())


def change_of(effect: Effect, kind: str = "AWS::S3::Bucket", name: str = "data", **more: Any) -> ResourceChange:  # noqa: ANN401
    return ResourceChange("storage", "Logical" + name, kind, name, effect, **more)


def key_of(need: Need, path: str = "Some.Key", old: object = 1, new: object = 2, **more: Any) -> Key:  # noqa: ANN401
    return Key(path, old, new, "POLICY", need, **more)


def of_cluster(*keys: Key, outcome: Outcome = Outcome.UPDATED, **more: Any) -> Verdict:  # noqa: ANN401
    return verdict_of(cluster=Cluster("dev", outcome, keys=keys, **more))


def said(verdict: Verdict) -> list[tuple[str, str]]:
    return [(reason.level.name, reason.text) for reason in verdict.reasons]


# --- resources -------------------------------------------------------------------------------------------------------
def test_no_change_is_nothing() -> None:
    verdict = verdict_of()
    assert (verdict.level, verdict.reasons, verdict.data) == (Level.NOTHING, (), ())
    assert verdict.headline == "NOTHING: the deployment is what the file says"


def test_the_jobs_of_a_cluster_that_is_deleted_are_named() -> None:
    renamed = Cluster("new", Outcome.CREATED, deleted=("old",), jobs={"old": "3 jobs run on it"})
    assert said(verdict_of(cluster=renamed))[0] == ("DESTRUCTIVE", "the cluster old is deleted, and 3 jobs run on it")


def test_what_was_changed_outside_is_a_reason_even_if_nothing_else_changes() -> None:
    verdict = replace(verdict_of(), outside=("the cluster dev was deleted",))
    assert (verdict.level, verdict.headline) == (Level.DISRUPTIVE, "DISRUPTIVE: the cluster dev was deleted")


SHRUNK = change_of(Effect.REFUSED, "AWS::FSx::FileSystem", stateful=True, causes=("StorageCapacity", "Type"))


@pytest.mark.parametrize(
    ("change", "text", "stake"),
    [
        *(
            (
                change_of(effect, stateful=True, data_disposition="kept outside"),
                f"S3 Bucket data {effect}, data kept outside",
                f"{effect}; data kept outside",
            )
            for effect in (Effect.REPLACED, Effect.MAY_BE_REPLACED, Effect.REMOVED)
        ),
        (
            SHRUNK,
            "FSx FileSystem data cannot change this way (StorageCapacity, Type): the deployment fails",
            "refused: it cannot change this way. See docs/storage.md, Replace a file system",
        ),
        (
            replace(SHRUNK, type=resources.DATABASE),
            "RDS DBCluster data cannot change this way (StorageCapacity, Type): the deployment fails",
            "refused while the cluster stack imports its address: see docs/accounting.md, Restore",
        ),
        *(
            (
                change_of(Effect.REFUSED, stateful=True, imported=bool(why), causes=("BucketName",)),
                "S3 Bucket data cannot change this way (BucketName): the deployment fails",
                f"refused{why or ': it cannot change this way'}",
            )
            for why in ("", " while other stacks import its name or id")
        ),
        (
            change_of(Effect.CHANGED, expires=("objects expire", "versions expire")),
            "S3 Bucket data: objects expire, versions expire",
            "objects expire, versions expire",
        ),
    ],
)
def test_data_at_stake_is_destructive(change: ResourceChange, text: str, stake: str) -> None:
    verdict = verdict_of(change)
    assert verdict.data == (change,)
    assert said(verdict) == [("DESTRUCTIVE", text)]
    assert verdict.headline == f"DESTRUCTIVE: {text}"
    assert at_stake(change) == stake


ONE, TWO = ("SAFE", "1 resource added or changed"), ("SAFE", "2 resources added or changed")
UPGRADED = "RDS DBCluster data is upgraded: it is away for some minutes"
TOPIC = "AWS::SNS::Topic"
HOOKS = "hooks changed: nodes that start later run them, running nodes keep the former ones until they are replaced"


def differing(kind: str, path: str) -> ResourceChange:
    return change_of(Effect.CHANGED, kind, differences=(Difference(path, "1", "2"),))


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ([change_of(Effect.ADDED, stateful=True)], [ONE]),
        ([change_of(Effect.CHANGED, stateful=True)], [ONE]),
        ([change_of(Effect.REMOVED, LOGS, stateful=True, data_disposition="kept outside")], [ONE]),
        (
            [change_of(Effect.REFUSED, TOPIC, "t", causes=("Type", "Name"))],
            [("DESTRUCTIVE", "CloudFormation refuses SNS Topic t: Type, Name"), ONE],
        ),
        ([change_of(Effect.REMOVED, "AWS::EC2::VPCEndpoint", "x")], [("DISRUPTIVE", "EC2 VPCEndpoint x removed"), ONE]),
        (
            [change_of(Effect.REMOVED, "AWS::FSx::DataRepositoryAssociation", "x")],
            [("DISRUPTIVE", "FSx DataRepositoryAssociation x removed"), ONE],
        ),
        (
            [*(change_of(Effect.REPLACED, TOPIC, name) for name in "ab"), change_of(Effect.CHANGED, "AWS::EC2::VPC")],
            [("SAFE", "3 resources added or changed")],
        ),
        ([differing(clusters.TYPE, "Hooks.0.Url")], [("DISRUPTIVE", HOOKS), ONE]),
        ([differing(clusters.TYPE, "EngineVersion"), differing(TOPIC, "Hooks.0.Url")], [TWO]),
        ([differing(resources.DATABASE, "EngineVersion")], [("DISRUPTIVE", UPGRADED), ONE]),
    ],
)
def test_resources_without_data_at_stake(changes: list[ResourceChange], reasons: list[tuple[str, str]]) -> None:
    verdict = verdict_of(*changes)
    assert (verdict.data, said(verdict)) == ((), reasons)


def test_data_are_not_counted_twice_and_the_highest_level_is_the_headline() -> None:
    lost = change_of(Effect.REMOVED, LOGS, stateful=True, data_disposition="lost")
    verdict = verdict_of(change_of(Effect.ADDED, TOPIC, "t"), lost, new=("dev-a", "dev-b"))
    destructive = "Logs LogGroup data removed, logs lost"
    assert said(verdict) == [("DESTRUCTIVE", destructive), ONE, ("SAFE", "new stacks: dev-a, dev-b")]
    assert verdict.headline == f"DESTRUCTIVE: {destructive}"


def test_all_reasons_of_the_level_are_in_the_headline() -> None:
    verdict = verdict_of(change_of(Effect.ADDED, TOPIC), new=("dev-a",))
    assert verdict.headline == "SAFE: 1 resource added or changed; new stacks: dev-a"


def test_labels() -> None:
    assert label(change_of(Effect.ADDED, "Custom::Thing", "x")) == "Thing x"
    assert label(change_of(Effect.ADDED, "AWS::CloudFormation::Stack", "x")) == "CloudFormation Stack x"


# --- the cluster -----------------------------------------------------------------------------------------------------
STOPS = "nodes must be stopped or drained: Some.Key"
IMPOSSIBLE = "impossible without a new cluster: 0, 1, 2, 3"


@pytest.mark.parametrize(
    ("keys", "level", "text"),
    [
        *(([key_of(need)], "DISRUPTIVE", STOPS) for need in (Need.FLEET, Need.LOGIN, Need.FLEET_AND_LOGIN, Need.HEAD)),
        ([key_of(Need.NOTHING)], "SAFE", "1 key of the cluster changed in place"),
        ([key_of(Need.NOTHING)] * 2, "SAFE", "2 keys of the cluster changed in place"),
        ([key_of(Need.NEW_CLUSTER, str(number)) for number in range(4)], "DESTRUCTIVE", IMPOSSIBLE),
        ([key_of(Need.NEW_CLUSTER, str(number)) for number in range(6)], "DESTRUCTIVE", f"{IMPOSSIBLE} and 2 more"),
    ],
)
def test_level_of_keys(keys: list[Key], level: str, text: str) -> None:
    assert said(of_cluster(*keys)) == [(level, text)]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (30, 7, "logs of the cluster are kept for 7 days instead of 30"),
        (None, 30, "logs of the cluster are kept for 30 days instead of 180"),
        (365, None, "logs of the cluster are kept for 180 days instead of 365"),
        (7, 30, ""),
        (None, 365, ""),
        (7, None, ""),
    ],
)
def test_logs_of_the_cluster(old: object, new: object, text: str) -> None:
    key = key_of(Need.NOTHING, "Monitoring.Logs.CloudWatch.RetentionInDays", old, new)
    lost = [("DESTRUCTIVE", text)] if text else []
    assert said(of_cluster(key)) == [*lost, ("SAFE", "1 key of the cluster changed in place")]


@pytest.mark.parametrize(
    ("outcome", "reasons"),
    [
        (Outcome.UNCHANGED, []),
        (Outcome.OTHER_VERSION, [("DESTRUCTIVE", "a cluster of ParallelCluster 3.1 cannot get another version")]),
        (
            Outcome.DISPLACED,
            [("DESTRUCTIVE", "another resource is to create the cluster dev, which is refused while it exists")],
        ),
        (
            Outcome.RESUMED,
            [("DISRUPTIVE", "the predecessor dev becomes the cluster again, and gets the file's configuration")],
        ),
        (Outcome.CREATED, [("SAFE", "the cluster dev is created")]),
    ],
)
def test_outcomes(outcome: Outcome, reasons: list[tuple[str, str]]) -> None:
    assert said(of_cluster(outcome=outcome, version="3.1")) == reasons


def test_a_successor_and_deleted_clusters() -> None:
    verdict = of_cluster(outcome=Outcome.CREATED, predecessors=("a", "b"), deleted=("c", "d"))
    assert said(verdict) == [
        ("DESTRUCTIVE", "the cluster c is deleted"),
        ("DESTRUCTIVE", "the cluster d is deleted"),
        ("SAFE", "the cluster dev is created, next to a, b"),
    ]
    assert verdict.headline == "DESTRUCTIVE: the cluster c is deleted; the cluster d is deleted"


ASKED = {"StopFleet": "when-needed", "Replace": "when-needed"}
NEVER = {"StopFleet": "never", "Replace": "never"}
ONLY_FLEET = {"StopFleet": "when-needed", "Replace": "never"}
REFUSED = "impossible without a new cluster: refused (cluster.updates.replace is never)"
CREATED_AGAIN = "impossible in place: the cluster is deleted and created again (cluster.updates.replace)"
STOPPED = "needs the compute fleet stopped"
EITHER = f"{STOPPED}, or QueueUpdateStrategy DRAIN or TERMINATE; refused while it runs"
DRAINED = "needs its nodes drained, which QueueUpdateStrategy DRAIN does"
ENDED = "needs its nodes ended at once, which QueueUpdateStrategy TERMINATE does"
RESTARTED = (
    "needs the compute fleet and the login nodes stopped; it is stopped and started again (cluster.updates.stop_fleet)"
)


@pytest.mark.parametrize(
    ("key", "updates", "strategy", "text"),
    [
        (key_of(Need.NOTHING), None, "", "in place, while jobs run"),
        (key_of(Need.FLEET, ignored=True), None, "", "not counted as a change; it says how later changes are made"),
        (key_of(Need.LOGIN), None, "", "needs the login nodes stopped: an update to count 0 before it"),
        (key_of(Need.HEAD), ASKED, "", "needs the head node stopped"),
        (key_of(Need.NEW_CLUSTER), None, "", REFUSED),
        (key_of(Need.NEW_CLUSTER), ONLY_FLEET, "", REFUSED),
        (key_of(Need.NEW_CLUSTER), ASKED, "", CREATED_AGAIN),
        (key_of(Need.FLEET), None, "", f"{STOPPED}; refused while it runs"),
        (key_of(Need.FLEET, internal_error=True), NEVER, "DRAIN", f"{STOPPED}; refused (HTTP 500) while it runs"),
        (key_of(Need.FLEET, strategies=("DRAIN", "TERMINATE")), None, "COMPUTE_FLEET_STOP", EITHER),
        (key_of(Need.FLEET_AND_LOGIN, internal_error=True), ASKED, "", RESTARTED),
        (key_of(Need.FLEET, strategies=("DRAIN",)), ASKED, "DRAIN", DRAINED),
        (key_of(Need.FLEET_AND_LOGIN, strategies=("TERMINATE",)), None, "TERMINATE", ENDED),
    ],
)
def test_meaning_of_a_key(key: Key, updates: dict[str, str] | None, strategy: str, text: str) -> None:
    assert meaning(key, Cluster("dev", Outcome.UPDATED, strategy=strategy, updates=updates)) == text


# --- the two sides ---------------------------------------------------------------------------------------------------
def stack_of(key: str, name: str, **resources: dict[str, Any]) -> Stack:
    return Stack(key, name, "us-east-1", {"Resources": resources})


def test_stacks_are_paired_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replaced resource gets a new id in the cluster's configuration; other changes do not."""
    asked: list[Any] = []

    def compare(old: object, new: object, replaced: object) -> Cluster:
        asked.append((old, new, replaced))
        return NO_CLUSTER

    replaced = change_of(Effect.REPLACED, "AWS::SNS::Topic", "t")
    monkeypatch.setattr(clusters, "compare", compare)

    def changes(old: object, new: object) -> list[ResourceChange]:
        asked.append((old, new))
        return [replaced, change_of(Effect.CHANGED)]

    monkeypatch.setattr(resources, "changes", changes)
    old = {"a": stack_of("a", "dev-a"), "b": stack_of("b", "old-b"), "c": stack_of("c", "dev-c")}
    new = {"a": stack_of("a", "dev-a"), "b": stack_of("b", "new-b"), "d": stack_of("d", "dev-d")}
    verdict = judge("dev", "main", old, new)
    assert (verdict.environment, verdict.against, verdict.cluster) == ("dev", "main", NO_CLUSTER)
    assert [change.name for change in verdict.resources] == ["t", "data"]
    assert (verdict.new_stacks, verdict.left_stacks) == (("new-b", "dev-d"), ("old-b", "dev-c"))
    assert asked == [({"a": old["a"]}, new), ({"a": old["a"]}, new, {("storage", "Logicalt")})]


@pytest.mark.parametrize(
    "change",
    [{"name": "other-network"}, {"region": "us-west-2"}, {"account": "444455556666"}],
    ids=["name", "region", "account"],
)
def test_an_environment_that_is_left_behind_is_never_safe(change: dict[str, Any]) -> None:
    old = {"network": replace(stack_of("network", "dev-network"), account="111122223333")}
    verdict = judge("dev", "main", old, {"network": replace(old["network"], **change)})
    assert verdict.left_stacks == ("dev-network",)
    assert verdict.level is Level.DISRUPTIVE
    assert verdict.headline.startswith("DISRUPTIVE: another environment: dev-network stay as they are")
