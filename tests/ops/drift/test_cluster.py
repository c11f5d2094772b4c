"""The cluster's answers, compared."""

from dataclasses import replace
from typing import Any

import pytest

from cluster_resource.api import OWNER_TAG
from cluster_resource.request import owner_of
from ops.drift.cluster import DeployedCluster, Reader, Unreadable, clusters, compare, in_words
from ops.drift.values import Values

from .stacks import stack_of

UNCHANGED = {"Image": {"Os": "ubuntu2204"}, "Scheduling": {"SlurmQueues": [{"Name": "gpu", "MaxCount": 2}]}}
CONFIGURATION = {
    **UNCHANGED,
    "HeadNode": {"SubnetId": {"Fn::ImportValue": "net:Subnet"}},
    "Tags": [{"Key": "project", "Value": "demo"}],
}
PROPERTIES = {
    "ClusterName": "demo",
    "Configuration": CONFIGURATION,
    "ApiUrl": "https://api",
    "ApiUserRoleArn": {"Fn::ImportValue": "net:Role"},
    "ApiVersion": "3.16.1",
}
STACK = stack_of(
    {"Cluster": ("Custom::ParallelCluster", "demo/1", PROPERTIES)},
    exports={"net:Subnet": "subnet-1", "net:Role": "arn:aws:iam::111122223333:role/api"},
)
OWNER = owner_of(STACK.id, "Cluster")


def place() -> DeployedCluster:
    [found] = clusters(STACK, Values([STACK]))
    return found


def answer(**changed: object) -> dict[str, Any]:
    return {
        "clusterStatus": "CREATE_COMPLETE",
        "cloudformationStackArn": "arn:stack",
        "computeFleetStatus": "RUNNING",
        "version": "3.16.1",
        "headNode": {"state": "running"},
        "clusterConfiguration": {"url": "https://signed"},
        "tags": [{"key": OWNER_TAG, "value": OWNER}],
        **changed,
    }


def actual(**changed: object) -> dict[str, Any]:
    return {
        **UNCHANGED,
        "HeadNode": {"SubnetId": "subnet-1"},
        "Tags": [{"Key": OWNER_TAG, "Value": OWNER}, {"Key": "project", "Value": "demo"}],
        **changed,
    }


class Fake(Reader):
    """A reader with fixed answers."""

    def __init__(self, found: dict[str, Any] | None, configuration: object = None) -> None:
        self.found, self.given = found, configuration

    def describe(self, name: str) -> dict[str, Any] | None:
        assert name == "demo"
        return self.found

    def configuration(self, name: str, url: str) -> object:
        assert (name, url) == ("demo", "https://signed")
        return self.given


def test_as_deployed() -> None:
    assert compare(place(), Fake(answer(), actual())) == ([], "arn:stack")


def test_a_changed_key() -> None:
    changed = actual(Scheduling={"SlurmQueues": [{"Name": "gpu", "MaxCount": 4}, {"Name": "spot"}]})
    [first, second], _ = compare(place(), Fake(answer(), changed))
    assert (first.path, first.expected, first.actual) == ("Scheduling.SlurmQueues[gpu].MaxCount", "2", "4")
    assert second.path == "Scheduling.SlurmQueues[spot]"
    assert "without CloudFormation" in first.advice


@pytest.mark.parametrize(
    ("changed", "path", "value"),
    [
        ({"clusterStatus": "UPDATE_FAILED"}, "clusterStatus", "UPDATE_FAILED"),
        ({"computeFleetStatus": "PROTECTED"}, "computeFleetStatus", "PROTECTED"),
        ({"computeFleetStatus": "STOPPED"}, "computeFleetStatus", "STOPPED"),
        ({"version": "3.17.0"}, "version", "3.17.0"),
        ({"headNode": {"state": "stopped"}}, "headNode.state", "stopped"),
        ({"tags": [{"key": OWNER_TAG, "value": "another"}]}, f"tags[{OWNER_TAG}]", "another"),
    ],
)
def test_states(changed: dict[str, object], path: str, value: str) -> None:
    [finding], _ = compare(place(), Fake(answer(**changed), actual()))
    assert (finding.path, finding.actual) == (path, value)


@pytest.mark.parametrize("found", [None, answer(clusterStatus="DELETE_COMPLETE")])
def test_a_deleted_cluster(found: dict[str, Any] | None) -> None:
    [finding], stack = compare(place(), Fake(found))
    assert (finding.actual, stack) == ("deleted", "")


def test_a_deletion_that_failed_has_no_configuration() -> None:
    failed = answer(clusterStatus="DELETE_FAILED", headNode={"state": "running"}, clusterConfiguration={})
    [finding], stack = compare(place(), Fake(failed))
    assert (finding.path, finding.actual, stack) == ("clusterStatus", "DELETE_FAILED", "arn:stack")


@pytest.mark.parametrize(
    ("found", "configuration", "words"),
    [
        (answer(), actual(), []),
        (answer(computeFleetStatus="STOPPED", headNode={"state": "stopped"}), actual(), []),
        (
            None,
            None,
            ["the cluster demo was deleted outside CloudFormation; to create it again, raise cluster.generat"],
        ),
        (
            answer(clusterStatus="DELETE_FAILED"),
            None,
            ["the cluster demo: clusterStatus is DELETE_FAILED, not CREATE_"],
        ),
        (
            answer(),
            actual(Scheduling={"SlurmQueues": [{"Name": "gpu", "MaxCount": 4}]}, Image={"Os": "rhel9"}),
            [
                "the cluster demo was changed outside CloudFormation: Image.Os (deployed ubuntu2204, now rhel9), "
                "Scheduling.SlurmQueues[gpu].MaxCount (deployed 2, now 4); put the values that you want into"
            ],
        ),
    ],
)
def test_the_words_for_a_report_on_a_deployment(
    found: dict[str, Any] | None, configuration: object, words: list[str]
) -> None:
    said = list(in_words("demo", compare(place(), Fake(found, configuration))[0]))
    assert [line[: len(start)] for line, start in zip(said, words, strict=True)] == words


def test_an_operation_in_progress_gives_no_verdict() -> None:
    with pytest.raises(Unreadable, match="UPDATE_IN_PROGRESS"):
        compare(place(), Fake(answer(clusterStatus="UPDATE_IN_PROGRESS")))


def test_only_the_states_of_a_predecessor_are_compared() -> None:
    frozen = replace(place(), frozen=True)
    assert compare(frozen, Fake(answer(), {"Image": "other"}))[0] == []


def test_an_api_without_a_url() -> None:
    with pytest.raises(Unreadable, match="URL"):
        Reader(replace(place(), api_url=""), "us-east-1")
