"""The cluster, as the ParallelCluster API tells of it, against the deployed template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3
import yaml

from cluster_resource.api import ApiError, ApiTrouble
from cluster_resource.client import HttpClusterApi
from cluster_resource.identity import OWNER_TAG, owner_of
from cluster_resource.signing import RoleSigner, session_name, signing_region
from ops.drift.compare import compared
from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

KIND = "Custom::ParallelCluster"
PART = "cluster"
SOUND = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
RUNNING = ("RUNNING", "STARTING", "START_REQUESTED")

OUTSIDE = (
    "Somebody changed the cluster without CloudFormation. Put the wanted value into the environment file; the next "
    "deployment that changes the cluster carries it out."
)
FLEET = "Start it with: pcluster update-compute-fleet --status START_REQUESTED"
PROTECTED = "Nodes failed again and again at their start: find out why, then start the fleet."

_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)


class Unreadable(Exception):
    """The API does not tell what is needed; the message says why."""


@dataclass(frozen=True)
class Place:
    """Where a cluster of the deployed template is found, and what it should be.

    Attributes:
        owner: the value of the tag by which the cluster's resource knows its cluster.
        frozen: kept as it is beside its successor: nobody says what its configuration should be.
    """

    name: str
    api_url: str
    role: str
    configuration: Mapping[str, Any]
    version: str
    owner: str
    frozen: bool


class Reader(Protocol):
    """What is asked of the API. Raises Unreadable."""

    def describe(self, name: str) -> Mapping[str, Any] | None:
        """The DescribeCluster answer, None where there is no such cluster."""

    def configuration(self, name: str, address: str) -> Any:  # noqa: ANN401 - YAML
        """What stands at the address of the cluster's configuration."""


class _Api(HttpClusterApi):
    """The handler's own client, for the whole of an answer."""

    def answer(self, name: str) -> dict[str, Any]:
        return self._call("GET", f"/v3/clusters/{name}")


class HttpReader:
    """`Reader` over HTTP, signed as the API's user role."""

    def __init__(self, place: Place, region: str) -> None:
        signer = RoleSigner(place.role, session_name(place.name), signing_region(place.api_url, region))
        self._api = _Api(place.api_url, region, signer)

    def describe(self, name: str) -> Mapping[str, Any] | None:
        try:
            return self._api.answer(name)
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise Unreadable(f"the ParallelCluster API answers: {error}") from error
        except ApiTrouble as error:
            raise Unreadable(f"the ParallelCluster API cannot be asked: {error}") from error

    def configuration(self, name: str, address: str) -> Any:  # noqa: ANN401 - YAML
        # The address is signed and so a secret for an hour: it is in no message.
        try:
            answer = urllib3.PoolManager().request("GET", address, timeout=_TIMEOUT)
        except urllib3.exceptions.HTTPError as error:
            raise Unreadable(f"the configuration of {name} cannot be fetched: {type(error).__name__}") from error
        if answer.status != 200:
            raise Unreadable(f"the configuration of {name} cannot be fetched: HTTP {answer.status}")
        try:
            return yaml.safe_load(answer.data)
        except yaml.YAMLError as error:
            raise Unreadable(f"the configuration of {name} is no YAML: {error}") from error


def places(stack: DeployedStack, values: Values) -> Iterator[Place]:
    """The clusters of the stack's template."""
    for resource in stack.of(KIND):
        yield _place(stack, resource, values)


def _place(stack: DeployedStack, resource: Resource, values: Values) -> Place:
    properties = values.properties(resource, stack)
    configuration: Mapping[str, Any] = properties.get("Configuration", {})
    owner = owner_of(stack.id, resource.logical_id)
    tags = [tag for tag in configuration.get("Tags") or [] if tag.get("Key") != OWNER_TAG]
    return Place(
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
class Looked:
    """A cluster that was looked at; `stack` is the ARN of its CloudFormation stack, empty where there is none."""

    findings: tuple[Finding, ...]
    stack: str = ""


def look(place: Place, reader: Reader) -> Looked:
    """Compare one cluster.

    Raises:
        Unreadable: the API does not tell.
    """
    answer = reader.describe(place.name)
    if answer is None or answer["clusterStatus"] == "DELETE_COMPLETE":
        advice = "The next deployment that changes the cluster makes it anew (docs/cluster-updates.md)."
        return Looked((Finding(PART, place.name, "", "exists", "deleted", advice),))
    status = str(answer["clusterStatus"])
    if status.endswith("_IN_PROGRESS"):
        raise Unreadable(f"the cluster {place.name} is {status}: wait until that has ended")
    findings = [*_states(place, answer)]
    if not place.frozen:
        address = (answer.get("clusterConfiguration") or {}).get("url")
        if not address:
            raise Unreadable(f"the API names no configuration of {place.name}")
        found = reader.configuration(place.name, address)
        findings += [
            Finding(PART, place.name, difference.path, difference.old, difference.new, OUTSIDE)
            for difference in compared(place.configuration, found)
        ]
    return Looked(tuple(findings), str(answer["cloudformationStackArn"]))


def _states(place: Place, answer: Mapping[str, Any]) -> Iterator[Finding]:
    def finding(path: str, expected: object, actual: object, advice: str = "") -> Finding:
        return Finding(PART, place.name, path, expected, actual, advice)

    status = str(answer["clusterStatus"])
    if status not in SOUND:
        yield finding("clusterStatus", " or ".join(SOUND), status)
    fleet = str(answer.get("computeFleetStatus") or "UNKNOWN")
    if fleet not in RUNNING:
        yield finding("computeFleetStatus", "RUNNING", fleet, PROTECTED if fleet == "PROTECTED" else FLEET)
    if place.version and answer.get("version") != place.version:
        yield finding("version", place.version, answer.get("version", ABSENT))
    head = answer.get("headNode") or {}
    state = head.get("state", "none")
    if state != "running":
        yield finding("headNode.state", "running", state, "Start the head node's instance.")
    tags = {tag["key"]: tag.get("value", "") for tag in answer.get("tags") or []}
    if tags.get(OWNER_TAG) != place.owner:
        yield finding(
            f"tags[{OWNER_TAG}]",
            place.owner,
            tags.get(OWNER_TAG, ABSENT),
            "The cluster's resource changes and deletes only what carries its tag.",
        )


def reader_of(place: Place, region: str) -> Reader:
    """The reader of a cluster's API.

    Raises:
        Unreadable: the deployed stacks do not tell where the API is.
    """
    if not place.api_url or not place.role:
        raise Unreadable("the deployed stacks do not tell the API's address and user role")
    return HttpReader(place, region)


ReaderOf = Callable[[Place, str], Reader]
