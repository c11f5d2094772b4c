"""A CloudFormation event as typed, frozen values."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from cluster_resource import configuration, identity
from cluster_resource.configuration import ConfigurationError

RequestType = Literal["Create", "Update", "Delete"]
DEFAULT_TIMEOUT_MINUTES = 55
MAX_TIMEOUT_MINUTES = 58  # CloudFormation stops listening after 60 minutes, and the answer must arrive before
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

    @property
    def owner(self) -> str:
        return identity.owner_of(self.stack_id, self.logical_id)


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
    timeout_minutes: int

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
        timeout_minutes=timeout_minutes(given),
    )


def configuration_unchanged(event: Mapping[str, Any]) -> bool:
    """True for an Update that leaves name and configuration as they were (new assets, say, or another time limit)."""
    new, old = event.get("ResourceProperties") or {}, event.get("OldResourceProperties") or {}
    return all(new.get(key) == old.get(key) for key in ("ClusterName", "Configuration", "ConfigurationTypes"))


def claimed_name(event: Mapping[str, Any], *, old: bool = False) -> str | None:
    """The cluster name of an event whose other properties may be broken."""
    name = (event.get("OldResourceProperties" if old else "ResourceProperties") or {}).get("ClusterName")
    return name if isinstance(name, str) and _CLUSTER_NAME.fullmatch(name) else None


def timeout_minutes(given: Mapping[str, Any]) -> int:
    """The time limit in minutes, 1 to 58, default 55."""
    value = given.get("TimeoutMinutes", DEFAULT_TIMEOUT_MINUTES)
    try:
        minutes = int(value)
    except (TypeError, ValueError):
        minutes = 0
    if not 1 <= minutes <= MAX_TIMEOUT_MINUTES:
        raise ConfigurationError(
            f"TimeoutMinutes is {value!r}; allowed are whole minutes from 1 to {MAX_TIMEOUT_MINUTES}."
        )
    return minutes


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
