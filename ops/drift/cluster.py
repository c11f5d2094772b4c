"""Drift of the cluster: what the ParallelCluster API reports, compared with the deployed template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3
import yaml

from cluster_resource.api import OWNER_TAG, ApiError, ApiTrouble
from cluster_resource.client import HttpClusterApi, RoleSigner
from cluster_resource.request import owner_of
from ops.drift.compare import compared
from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

KIND = "Custom::ParallelCluster"
PART = "cluster"
HEALTHY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
RUNNING = ("RUNNING", "STARTING", "START_REQUESTED")

OUTSIDE = (
    "The cluster was changed without CloudFormation. Put the value that you want into the environment file; the next "
    "deployment that changes the cluster applies it."
)
FLEET = "Start it with: pcluster update-compute-fleet --status START_REQUESTED"
PROTECTED = "Nodes failed repeatedly at their start: find the cause, then start the fleet."

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)


class Unreadable(Exception):
    """The cluster cannot be compared; the message says why."""


@dataclass(frozen=True)
class DeployedCluster:
    """A cluster of the deployed template: where its API is, and what the cluster should be.

    Attributes:
        owner: value of the tag by which the custom resource recognizes its cluster.
        frozen: a predecessor that is kept as it is; the template does not have its configuration.
    """

    name: str
    api_url: str
    role: str
    configuration: Mapping[str, Any]
    version: str
    owner: str
    frozen: bool


class Reader(Protocol):
    """Calls to the API. They raise Unreadable."""

    def describe(self, name: str) -> Mapping[str, Any] | None:
        """The DescribeCluster response; None where there is no such cluster."""

    def configuration(self, name: str, url: str) -> Any:  # noqa: ANN401 - YAML
        """The cluster's configuration, from its URL in the DescribeCluster response."""


class _Api(HttpClusterApi):
    """The handler's client, which keeps only a part of the response."""

    def answer(self, name: str) -> dict[str, Any]:
        return self._call("GET", f"/v3/clusters/{name}")


class HttpReader:
    """`Reader` over HTTP, signed as the API's user role."""

    def __init__(self, cluster: DeployedCluster, region: str) -> None:
        signer = RoleSigner(cluster.role, cluster.name, cluster.api_url, region)
        self._api = _Api(cluster.api_url, region, signer)

    def describe(self, name: str) -> Mapping[str, Any] | None:
        try:
            return self._api.answer(name)
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise Unreadable(f"the ParallelCluster API answered: {error}") from error
        except ApiTrouble as error:
            raise Unreadable(f"the ParallelCluster API cannot be reached: {error}") from error

    def configuration(self, name: str, url: str) -> Any:  # noqa: ANN401 - YAML
        # The URL is signed, so it is a secret for an hour and must not be in a message.
        try:
            answer = urllib3.PoolManager().request("GET", url, timeout=_TIMEOUT)
        except urllib3.exceptions.HTTPError as error:
            raise Unreadable(f"the configuration of {name} cannot be fetched: {type(error).__name__}") from error
        if answer.status != 200:
            raise Unreadable(f"the configuration of {name} cannot be fetched: HTTP {answer.status}")
        try:
            return yaml.safe_load(answer.data)
        except yaml.YAMLError as error:
            raise Unreadable(f"the configuration of {name} is not YAML: {error}") from error


def clusters(stack: DeployedStack, values: Values) -> Iterator[DeployedCluster]:
    """The clusters of the stack's template."""
    for resource in stack.of(KIND):
        yield _cluster(stack, resource, values)


def _cluster(stack: DeployedStack, resource: Resource, values: Values) -> DeployedCluster:
    properties = values.properties(resource, stack)
    configuration: Mapping[str, Any] = properties.get("Configuration", {})
    owner = owner_of(stack.id, resource.logical_id)
    tags = [tag for tag in configuration.get("Tags") or [] if tag.get("Key") != OWNER_TAG]
    return DeployedCluster(
        name=str(properties["ClusterName"]),
        api_url=_known(properties, "ApiUrl"),
        role=_known(properties, "ApiUserRoleArn"),
        configuration={**configuration, "Tags": [*tags, {"Key": OWNER_TAG, "Value": owner}]},
        version=str(properties.get("ApiVersion", "")),
        owner=owner,
        frozen=str(properties.get("Frozen", "false")).lower() == "true",
    )


def _known(properties: Mapping[str, Any], key: str) -> str:
    value = properties.get(key)
    return "" if value is None or value is UNKNOWN else str(value)


@dataclass(frozen=True)
class Comparison:
    """The findings on one cluster; `stack` is the ARN of its CloudFormation stack, empty where there is none."""

    findings: tuple[Finding, ...]
    stack: str = ""


def compare(cluster: DeployedCluster, reader: Reader) -> Comparison:
    """Compare one cluster.

    Raises:
        Unreadable: the API does not return what is needed.
    """
    answer = reader.describe(cluster.name)
    if answer is None or answer["clusterStatus"] == "DELETE_COMPLETE":
        advice = "The next deployment that changes the cluster creates it again (docs/cluster-updates.md)."
        return Comparison((Finding(PART, cluster.name, "", "exists", "deleted", advice),))
    status = str(answer["clusterStatus"])
    if status.endswith("_IN_PROGRESS"):
        raise Unreadable(f"the cluster {cluster.name} is {status}: wait until that has ended")
    findings = [*_states(cluster, answer)]
    if not cluster.frozen:
        url = (answer.get("clusterConfiguration") or {}).get("url")
        if not url:
            raise Unreadable(f"the API has no configuration of {cluster.name}")
        found = reader.configuration(cluster.name, url)
        findings += [
            Finding(PART, cluster.name, difference.path, difference.old, difference.new, OUTSIDE)
            for difference in compared(cluster.configuration, found)
        ]
    return Comparison(tuple(findings), str(answer["cloudformationStackArn"]))


def _states(cluster: DeployedCluster, answer: Mapping[str, Any]) -> Iterator[Finding]:
    def finding(path: str, expected: object, actual: object, advice: str = "") -> Finding:
        return Finding(PART, cluster.name, path, expected, actual, advice)

    status = str(answer["clusterStatus"])
    if status not in HEALTHY:
        yield finding("clusterStatus", " or ".join(HEALTHY), status)
    fleet = str(answer.get("computeFleetStatus") or "UNKNOWN")
    if fleet not in RUNNING:
        yield finding("computeFleetStatus", "RUNNING", fleet, PROTECTED if fleet == "PROTECTED" else FLEET)
    if cluster.version and answer.get("version") != cluster.version:
        yield finding("version", cluster.version, answer.get("version", ABSENT))
    head = answer.get("headNode") or {}
    state = head.get("state", "none")
    if state != "running":
        yield finding("headNode.state", "running", state, "Start the head node's instance.")
    tags = {tag["key"]: tag.get("value", "") for tag in answer.get("tags") or []}
    if tags.get(OWNER_TAG) != cluster.owner:
        yield finding(
            f"tags[{OWNER_TAG}]",
            cluster.owner,
            tags.get(OWNER_TAG, ABSENT),
            "The custom resource changes and deletes only clusters with its tag.",
        )


def reader_of(cluster: DeployedCluster, region: str) -> Reader:
    """The reader of a cluster's API.

    Raises:
        Unreadable: the deployed stacks do not have the API's URL or role.
    """
    if not cluster.api_url or not cluster.role:
        raise Unreadable("the deployed stacks do not have the API's URL and user role")
    return HttpReader(cluster, region)


ReaderOf = Callable[[DeployedCluster, str], Reader]
