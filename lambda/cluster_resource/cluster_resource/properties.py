"""A CloudFormation event as typed, frozen values."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from cluster_resource import configuration, identity
from cluster_resource.configuration import ConfigurationError

RequestType = Literal["Create", "Update", "Delete"]
WAIT_TYPE = "Custom::ParallelClusterWait"
GONE_TYPE = "Custom::ParallelClusterGone"
DEFAULT_MINUTES = 55
MAX_TIMEOUT_MINUTES = 720
MAX_ANSWER_MINUTES = 55  # CloudFormation stops listening after 60 minutes, and the answer must arrive before
MAX_FOLLOWERS = 720
_CLUSTER_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{1,59}")  # the API's own pattern, with ParallelCluster's length limit


@dataclass(frozen=True)
class Request:
    """What CloudFormation asks, apart from the resource's own properties.

    `physical_id` is None for a Create.
    """

    type: RequestType
    request_id: str
    stack_id: str
    logical_id: str
    physical_id: str | None
    resource_type: str

    @property
    def owner(self) -> str:
        return identity.owner_of(self.stack_id, self.logical_id)


@dataclass(frozen=True)
class Place:
    """Where a cluster is found: its name, and the API that is asked about it."""

    cluster_name: str
    region: str
    api_url: str
    api_user_role_arn: str


@dataclass(frozen=True)
class ClusterProperties:
    """The properties of `Custom::ParallelCluster`, types restored.

    `configuration_text` is what the API is given; it is kept out of every representation, so that no log shows it.
    """

    cluster_name: str
    region: str
    configuration_text: str
    api_url: str
    api_user_role_arn: str
    api_version: str
    os: str
    queue_update: str

    @property
    def place(self) -> Place:
        return Place(self.cluster_name, self.region, self.api_url, self.api_user_role_arn)

    def __repr__(self) -> str:
        return f"ClusterProperties(cluster_name={self.cluster_name!r}, region={self.region!r})"


def request_of(event: Mapping[str, Any]) -> Request:
    kind = event.get("RequestType")
    if kind not in ("Create", "Update", "Delete"):
        raise ConfigurationError(f"RequestType is {kind!r}; allowed are Create, Update and Delete.")
    return Request(
        type=cast("RequestType", kind),
        request_id=str(event["RequestId"]),
        stack_id=str(event["StackId"]),
        logical_id=str(event["LogicalResourceId"]),
        physical_id=event.get("PhysicalResourceId"),
        resource_type=str(event.get("ResourceType", "")),
    )


def properties_of(event: Mapping[str, Any]) -> ClusterProperties:
    """The wanted properties of an event.

    Raises:
        ConfigurationError: a property is missing, or is not what it must be.
    """
    given: Mapping[str, Any] = event.get("ResourceProperties") or {}
    settings = given.get("Configuration")
    if not isinstance(settings, dict) or not settings:
        raise ConfigurationError("Configuration must be the ParallelCluster configuration as a nested structure.")
    types = given.get("ConfigurationTypes") or {}
    if not isinstance(types, dict):
        raise ConfigurationError("ConfigurationTypes must map integer, number and boolean to lists of paths.")
    restored = configuration.restore(settings, types)
    return ClusterProperties(
        cluster_name=_cluster_name(given),
        region=str(restored.get("Region") or os.environ["AWS_REGION"]),
        configuration_text=configuration.render(restored, request_of(event).owner),
        api_url=_text(given, "ApiUrl").rstrip("/"),
        api_user_role_arn=_text(given, "ApiUserRoleArn"),
        api_version=_text(given, "ApiVersion"),
        os=str((restored.get("Image") or {}).get("Os", "")),
        queue_update=str(
            ((restored.get("Scheduling") or {}).get("SlurmSettings") or {}).get("QueueUpdateStrategy")
            or "COMPUTE_FLEET_STOP"
        ),
    )


def place_of(event: Mapping[str, Any]) -> Place:
    """The cluster that an event of any of the resources is about.

    Raises:
        ConfigurationError: a property is missing, or is not what it must be.
    """
    given: Mapping[str, Any] = event.get("ResourceProperties") or {}
    settings = given.get("Configuration")
    region = given.get("Region") or (settings.get("Region") if isinstance(settings, dict) else None)
    return Place(
        cluster_name=_cluster_name(given),
        region=str(region or os.environ["AWS_REGION"]),
        api_url=_text(given, "ApiUrl").rstrip("/"),
        api_user_role_arn=_text(given, "ApiUserRoleArn"),
    )


def owner_property(event: Mapping[str, Any]) -> str:
    """The ownership tag's value that a resource beside the cluster was given."""
    return _text(event.get("ResourceProperties") or {}, "Owner")


def configuration_unchanged(event: Mapping[str, Any]) -> bool:
    """True for an Update that leaves name and configuration as they were (new assets, say, or another time limit)."""
    new, old = event.get("ResourceProperties") or {}, event.get("OldResourceProperties") or {}
    return all(new.get(key) == old.get(key) for key in ("ClusterName", "Configuration", "ConfigurationTypes"))


def is_frozen(event: Mapping[str, Any], *, old: bool = False) -> bool:
    """Whether the cluster is only kept as it is, beside the one that takes over from it."""
    side = event.get("OldResourceProperties" if old else "ResourceProperties") or {}
    return str(side.get("Frozen", "false")).lower() == "true"


def claimed_name(event: Mapping[str, Any], *, old: bool = False) -> str | None:
    """The cluster name of an event whose other properties may be broken."""
    name = (event.get("OldResourceProperties" if old else "ResourceProperties") or {}).get("ClusterName")
    return name if isinstance(name, str) and _CLUSTER_NAME.fullmatch(name) else None


def timeout_minutes(event: Mapping[str, Any]) -> int:
    """The time limit of the operation in minutes, 1 to 720, default 55."""
    return _whole(event, "TimeoutMinutes", DEFAULT_MINUTES, 1, MAX_TIMEOUT_MINUTES)


def answer_minutes(event: Mapping[str, Any]) -> int:
    """Minutes until CloudFormation must have an answer of this resource, 1 to 55, default 55."""
    return _whole(event, "AnswerMinutes", DEFAULT_MINUTES, 1, MAX_ANSWER_MINUTES)


def waits_behind(event: Mapping[str, Any]) -> int:
    """How many resources stand behind this one to wait on for the end of a creation or an update."""
    return _whole(event, "WaitsBehind", 0, 0, MAX_FOLLOWERS)


def waits_before(event: Mapping[str, Any]) -> int:
    """How many resources stand before this one, to be deleted after it and to wait for the end of a deletion."""
    return _whole(event, "WaitsBefore", 0, 0, MAX_FOLLOWERS)


def _whole(event: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = (event.get("ResourceProperties") or {}).get(key, default)
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if not least <= number <= most:
        raise ConfigurationError(f"{key} is {value!r}; allowed are whole numbers from {least} to {most}.")
    return number


def _cluster_name(given: Mapping[str, Any]) -> str:
    name = _text(given, "ClusterName")
    if not _CLUSTER_NAME.fullmatch(name):
        raise ConfigurationError(
            f"ClusterName is {name!r}; allowed are 2 to 60 letters, digits and hyphens, the first a letter."
        )
    return name


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"The property {key} is missing.")
    return value
