"""Drift of the cluster: what the ParallelCluster API reports, compared with the deployed template."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import urllib3
import yaml

from cluster_resource.api import OWNER_TAG, ApiError, ApiTrouble
from cluster_resource.client import HttpClusterApi, RoleSigner
from cluster_resource.request import owner_of
from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values, compared
from ops.intrinsics import UNKNOWN
from ops.review.cluster import TYPE, is_predecessor
from ops.review.structure import ABSENT, shown

PART = "cluster"

_HEALTHY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
_RUNNING = ("RUNNING", "STARTING", "START_REQUESTED")
_OF_PEOPLE = ("computeFleetStatus", "headNode.state")
"""What users switch on and off; a deployment is judged without it."""
_AGAIN = "raise cluster.generation by one in the environment file, then deploy"
_OUTSIDE = (
    "The cluster was changed without CloudFormation. Put the value that you want into the environment file; the next "
    "deployment that changes the cluster applies it."
)
_FLEET = "Start it with: pcluster update-compute-fleet --status START_REQUESTED"
_PROTECTED = "Nodes failed repeatedly at their start: find the cause, then start the fleet."
_OTHER_OWNER = "The custom resource changes and deletes only clusters with its tag."
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


class _Api(HttpClusterApi):
    """The handler's client, with the whole DescribeCluster response."""

    def answer(self, name: str) -> dict[str, Any]:
        return self._call("GET", f"/v3/clusters/{name}")


class Reader:
    """Calls to a cluster's API, signed as the API's user role. Every method raises Unreadable."""

    def __init__(self, cluster: DeployedCluster, region: str) -> None:
        if not cluster.api_url or not cluster.role:
            raise Unreadable("the deployed stacks do not have the API's URL and user role")
        signer = RoleSigner(cluster.role, cluster.name, cluster.api_url, region)
        self._api = _Api(cluster.api_url, region, signer)

    def describe(self, name: str) -> Mapping[str, Any] | None:
        """The DescribeCluster response; None where there is no such cluster."""
        try:
            return self._api.answer(name)
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise Unreadable(f"the ParallelCluster API answered: {error}") from error
        except ApiTrouble as error:
            raise Unreadable(f"the ParallelCluster API cannot be reached: {error}") from error

    def has_nodes(self, name: str) -> bool:
        """Whether a compute node has an instance."""
        try:
            return self._api.compute_nodes(name) > 0
        except ApiTrouble as error:
            raise Unreadable(f"the ParallelCluster API does not list the nodes of {name}: {error}") from error

    def configuration(self, name: str, url: str) -> Any:  # noqa: ANN401 - YAML
        """The cluster's configuration, from its URL in the DescribeCluster response."""
        # The URL is signed, so it is a secret for an hour and must not be in a message.
        try:
            answer = urllib3.PoolManager().request("GET", url, timeout=_TIMEOUT)
        except urllib3.exceptions.HTTPError as error:
            raise Unreadable(f"the configuration of {name} cannot be fetched: {type(error).__name__}") from error
        if answer.status != 200:
            raise Unreadable(f"the configuration of {name} cannot be fetched: HTTP {answer.status}")
        try:
            return yaml.safe_load(answer.data)
        except yaml.YAMLError:
            raise Unreadable(f"the configuration of {name} is not YAML") from None


def clusters(stack: DeployedStack, values: Values) -> Iterator[DeployedCluster]:
    """The clusters of the stack's template."""
    for resource in stack.of(TYPE):
        properties = values.properties(resource, stack)
        configuration: Mapping[str, Any] = properties.get("Configuration", {})
        owner = owner_of(stack.id, resource.logical_id)
        tags = [tag for tag in configuration.get("Tags") or [] if tag.get("Key") != OWNER_TAG]
        url, role = (properties.get(key, UNKNOWN) for key in ("ApiUrl", "ApiUserRoleArn"))
        yield DeployedCluster(
            name=str(properties["ClusterName"]),
            api_url="" if url is UNKNOWN else str(url),
            role="" if role is UNKNOWN else str(role),
            configuration={**configuration, "Tags": [*tags, {"Key": OWNER_TAG, "Value": owner}]},
            version=str(properties.get("ApiVersion", "")),
            owner=owner,
            frozen=is_predecessor(properties),
        )


def compare(cluster: DeployedCluster, reader: Reader) -> tuple[list[Finding], str]:
    """The findings on one cluster, and the ARN of its CloudFormation stack, empty where there is none.

    Raises:
        Unreadable: the API does not return what is needed.
    """
    answer = reader.describe(cluster.name)
    if answer is None or answer["clusterStatus"] == "DELETE_COMPLETE":
        advice = f"To create it again: {_AGAIN}."
        return [Finding(PART, cluster.name, "", "exists", "deleted", advice)], ""
    status = str(answer["clusterStatus"])
    if status.endswith("_IN_PROGRESS"):
        raise Unreadable(f"the cluster {cluster.name} is {status}: wait until that has ended")
    findings = _states(cluster, answer)
    if not cluster.frozen and status != "DELETE_FAILED":
        url = (answer.get("clusterConfiguration") or {}).get("url")
        if not url:
            raise Unreadable(f"the API has no configuration of {cluster.name}")
        findings += [
            Finding(PART, cluster.name, difference.path, difference.old, difference.new, _OUTSIDE)
            for difference in compared(cluster.configuration, reader.configuration(cluster.name, url))
        ]
    return findings, str(answer["cloudformationStackArn"])


def in_words(name: str, findings: Iterable[Finding]) -> Iterator[str]:
    """The findings on the cluster `name`, for a report on a deployment: what differs, and what to do."""
    keys = []
    for finding in findings:
        if not finding.path:
            yield f"the cluster {name} was deleted outside CloudFormation; to create it again, {_AGAIN}"
        elif finding.advice == _OUTSIDE:
            keys.append(f"{finding.path} (deployed {shown(finding.expected)}, now {shown(finding.actual)})")
        elif finding.path not in _OF_PEOPLE:
            yield f"the cluster {name}: {finding.path} is {shown(finding.actual)}, not {shown(finding.expected)}"
    if keys:
        what = f"the cluster {name} was changed outside CloudFormation: {', '.join(keys)}"
        yield f"{what}; put the values that you want into the environment file, or, to undo this, {_AGAIN}"


def _states(cluster: DeployedCluster, answer: Mapping[str, Any]) -> list[Finding]:
    status, version = str(answer["clusterStatus"]), answer.get("version", ABSENT)
    fleet = str(answer.get("computeFleetStatus") or "UNKNOWN")
    head = (answer.get("headNode") or {}).get("state", "none")
    owner = {tag["key"]: tag.get("value", "") for tag in answer.get("tags") or []}.get(OWNER_TAG, ABSENT)
    start = _PROTECTED if fleet == "PROTECTED" else _FLEET
    states = (
        (status in _HEALTHY, "clusterStatus", " or ".join(_HEALTHY), status, ""),
        (fleet in _RUNNING, "computeFleetStatus", "RUNNING", fleet, start),
        (cluster.version in ("", version), "version", cluster.version, version, ""),
        (head == "running", "headNode.state", "running", head, "Start the head node's instance."),
        (owner == cluster.owner, f"tags[{OWNER_TAG}]", cluster.owner, owner, _OTHER_OWNER),
    )
    return [Finding(PART, cluster.name, *state) for ok, *state in states if not ok]
