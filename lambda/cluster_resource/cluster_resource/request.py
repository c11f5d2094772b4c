"""A CloudFormation event as one typed value, parsed once.

`Request.of` reads what every event has. The rest is parsed on first use, because a Delete must succeed although
properties that it does not need are wrong.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from cluster_resource.api import OWNER_TAG
from cluster_resource.policies import VALUES, Policy

RequestType = Literal["Create", "Update", "Delete"]
WAIT_TYPE = "Custom::ParallelClusterWait"
GONE_TYPE = "Custom::ParallelClusterGone"
NOT_CREATED = "not-created"
_TAG_VALUE_LIMIT = 256  # Amazon EC2 and CloudFormation tag values
_DIGEST_DIGITS = 12
_CLUSTER_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{1,59}")  # the API's own pattern, with ParallelCluster's length limit
_TYPES_KEY = "ConfigurationTypes"
_CLUSTER_KEYS = ("ClusterName", "Configuration", _TYPES_KEY, "Generation")
_TYPES = {"boolean": (bool,), "integer": (int,), "number": (int, float)}
_MOST_MINUTES = 720


class ConfigurationError(ValueError):
    """A property is missing or wrong; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class Place:
    """Where to find a cluster: its name and the API that manages it."""

    cluster_name: str
    region: str
    api_url: str
    api_user_role_arn: str


@dataclass(frozen=True)
class ClusterProperties:
    """The cluster that `Custom::ParallelCluster` asks for. `configuration_text` is the body for the API."""

    configuration_text: str = field(repr=False)
    api_version: str
    os: str
    queue_update: str


@dataclass(frozen=True)
class Timing:
    """Time limits and the chain of waiting resources.

    Attributes:
        timeout_minutes: time limit of the operation, 1 to 720, default 55.
        answer_minutes: minutes until CloudFormation must have an answer from this resource, 1 to 55, default 55.
        waits_behind: number of resources after this one that wait for the end of a create or an update.
        waits_before: number of resources that are deleted after this one and wait for the end of its delete.
    """

    timeout_minutes: int
    answer_minutes: int
    waits_behind: int
    waits_before: int


@dataclass(frozen=True)
class Request:
    """What CloudFormation asks for.

    Attributes:
        event: as CloudFormation sent it; it travels with the operation.
        physical_id: None for a Create.
        given, old: the properties of the event, and those before an Update, unchecked.
    """

    event: dict[str, Any] = field(repr=False)
    type: RequestType
    request_id: str
    stack_id: str
    logical_id: str
    physical_id: str | None
    resource_type: str
    given: Mapping[str, Any] = field(repr=False)
    old: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, event: dict[str, Any]) -> "Request":
        """Raises ConfigurationError for an unknown RequestType."""
        kind = event.get("RequestType")
        if kind not in ("Create", "Update", "Delete"):
            raise ConfigurationError(f"RequestType is {kind!r}; allowed are Create, Update and Delete.")
        return cls(
            event=event,
            type=cast("RequestType", kind),
            request_id=str(event["RequestId"]),
            stack_id=str(event["StackId"]),
            logical_id=str(event["LogicalResourceId"]),
            physical_id=event.get("PhysicalResourceId"),
            resource_type=str(event.get("ResourceType", "")),
            given=event.get("ResourceProperties") or {},
            old=event.get("OldResourceProperties") or {},
        )

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that identify the resource."""
        return _digest(self.stack_id, self.logical_id)

    @property
    def owner(self) -> str:
        return owner_of(self.stack_id, self.logical_id)

    def own_id(self, name: str) -> str:
        """The physical id of a cluster (or another resource) that this resource made, or may have made."""
        return f"{name}/{self.digest}"

    @property
    def never_created(self) -> bool:
        """The physical id is that of a failed Create that made no cluster."""
        return (self.physical_id or "").startswith(f"{NOT_CREATED}/")

    @property
    def cluster_of_id(self) -> str | None:
        """The cluster name in the physical id; None for an id that this resource did not give.

        CloudFormation invents an id for a resource that never answered its Create.
        """
        name, separator, digest = (self.physical_id or "").partition("/")
        return name if separator and name and name != NOT_CREATED and digest == self.digest else None

    @property
    def claimed_name(self) -> str | None:
        """The cluster name, if valid, of an event whose other properties may be wrong."""
        return _valid_name(self.given)

    @property
    def old_name(self) -> str | None:
        return _valid_name(self.old)

    @property
    def frozen(self) -> bool:
        """The cluster is kept as it is while its successor takes over."""
        return str(self.given.get("Frozen")).lower() == "true"

    def unchanged(self, *, rollback: bool) -> bool:
        """An Update that leaves name and configuration as they were (new assets, or another time limit).

        A frozen cluster was not touched, so its rollback has nothing to do either.
        """
        same = all(self.given.get(key) == self.old.get(key) for key in _CLUSTER_KEYS)
        return self.type == "Update" and (same or (rollback and str(self.old.get("Frozen")).lower() == "true"))

    @cached_property
    def place(self) -> Place:
        """Raises ConfigurationError for a missing or wrong property, as do the members below."""
        configuration = self.given.get("Configuration")
        region = self.given.get("Region") or (configuration.get("Region") if isinstance(configuration, dict) else None)
        name = self.text("ClusterName")
        if not _CLUSTER_NAME.fullmatch(name):
            raise ConfigurationError(
                f"ClusterName is {name!r}; allowed are 2 to 60 letters, digits and hyphens, the first a letter."
            )
        return Place(
            cluster_name=name,
            region=str(region or os.environ["AWS_REGION"]),
            api_url=self.text("ApiUrl").rstrip("/"),
            api_user_role_arn=self.text("ApiUserRoleArn"),
        )

    @cached_property
    def cluster(self) -> ClusterProperties:
        configuration = self.given.get("Configuration")
        if not isinstance(configuration, dict) or not configuration:
            raise ConfigurationError("Configuration must be the ParallelCluster configuration as a nested structure.")
        restored = restore(configuration, self.given.get(_TYPES_KEY) or {})
        slurm = (restored.get("Scheduling") or {}).get("SlurmSettings") or {}
        return ClusterProperties(
            configuration_text=render(restored, self.owner),
            api_version=self.text("ApiVersion"),
            os=str((restored.get("Image") or {}).get("Os", "")),
            queue_update=str(slurm.get("QueueUpdateStrategy") or "COMPUTE_FLEET_STOP"),
        )

    @cached_property
    def deployed_text(self) -> str:
        """The configuration before an Update, as the API takes it; empty if that was another cluster's, or is wrong."""
        configuration = self.old.get("Configuration")
        if not isinstance(configuration, dict) or self.old.get("Frozen") or self.old_name != self.claimed_name:
            return ""
        try:
            return render(restore(configuration, self.old.get(_TYPES_KEY) or {}), self.owner)
        except ConfigurationError:
            return ""

    @cached_property
    def timing(self) -> Timing:
        return Timing(
            timeout_minutes=self._whole("TimeoutMinutes", 55, 1, _MOST_MINUTES),
            # CloudFormation waits 60 minutes for an answer, which takes some time itself.
            answer_minutes=self._whole("AnswerMinutes", 55, 1, 55),
            waits_behind=self._whole("WaitsBehind", 0, 0, _MOST_MINUTES),
            waits_before=self._whole("WaitsBefore", 0, 0, _MOST_MINUTES),
        )

    def policy(self, *, rollback: bool) -> Policy:
        """The property `Updates`; a key that is missing has the careful value.

        A rollback may do what the update that it undoes was allowed to do: its own properties are those from before, in
        which the permission may be missing.
        """
        sides = [] if self.type == "Delete" else [_updates(self.given)]
        if rollback or self.type == "Delete":
            # Wrong values there made the update fail before it changed anything; its rollback must not fail too.
            with suppress(ConfigurationError):
                sides.append(_updates(self.old if rollback else self.given))
        return Policy.of(sides, rollback=rollback)

    def text(self, key: str) -> str:
        value = self.given.get(key)
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"The property {key} is missing.")
        return value

    def _whole(self, key: str, default: int, least: int, most: int) -> int:
        value = self.given.get(key, default)
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = least - 1
        if not least <= number <= most:
            raise ConfigurationError(f"{key} is {value!r}; allowed are whole numbers from {least} to {most}.")
        return number


def owner_of(stack_id: str, logical_id: str) -> str:
    """The value of the ownership tag: `<StackId>/<LogicalResourceId>`, or a digest of the id where that is too long."""
    owner = f"{stack_id}/{logical_id}"
    return owner if len(owner) <= _TAG_VALUE_LIMIT else f"{stack_id}/{_digest(stack_id, logical_id)}"


def _digest(stack_id: str, logical_id: str) -> str:
    return hashlib.sha256(f"{stack_id}/{logical_id}".encode()).hexdigest()[:_DIGEST_DIGITS]


def _valid_name(given: Mapping[str, Any]) -> str | None:
    name = given.get("ClusterName")
    return name if isinstance(name, str) and _CLUSTER_NAME.fullmatch(name) else None


def _updates(given: Mapping[str, Any]) -> Mapping[str, str]:
    updates = given.get("Updates") or {}
    if not isinstance(updates, dict) or any(value not in VALUES.get(key, ()) for key, value in updates.items()):
        allowed = ", ".join(f"{key}: {' or '.join(values)}" for key, values in VALUES.items())
        raise ConfigurationError(f"Updates is {updates!r}; allowed are {allowed}.")
    return updates


def restore(configuration: Any, types: Any) -> Any:  # noqa: ANN401 - JSON
    """`configuration` with its numbers and booleans; CloudFormation delivers every scalar as a string.

    Args:
        configuration: the nested structure as CloudFormation delivers it.
        types: `{"integer": [path, ...], "number": [...], "boolean": [...]}`; `.` between keys, `[]` for the items of a
            list; `.`, `[` and the backslash within a key are escaped by a backslash.

    Raises:
        ConfigurationError: an unknown type, or a value that is not of its type.
    """
    if not isinstance(types, dict) or not all(kind in _TYPES and isinstance(types[kind], list) for kind in types):
        raise ConfigurationError(f"{_TYPES_KEY} is {types!r}; it must map {', '.join(_TYPES)} to lists of paths.")
    return _restored(configuration, "", {path: kind for kind, paths in types.items() for path in paths})


def _restored(value: Any, path: str, kinds: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        dot = "." if path else ""
        return {key: _restored(item, f"{path}{dot}{_escaped(key)}", kinds) for key, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, f"{path}[]", kinds) for item in value]
    kind = kinds.get(path)
    if kind is None or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value.lower())
    except ValueError:
        parsed = None
    # JavaScript has one kind of number: a whole one may arrive as "4.0".
    if kind == "integer" and isinstance(parsed, float) and parsed.is_integer():
        parsed = int(parsed)
    if type(parsed) not in _TYPES[kind]:
        raise ConfigurationError(f"Configuration: {path} is {value!r}, which is not of type {kind}.")
    return parsed


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")


def render(configuration: Mapping[str, Any], owner: str) -> str:
    """The configuration as the API takes it (JSON is YAML), with the ownership tag among its Tags.

    The same input gives the same text, because the API compares texts to see whether an update changes anything.
    """
    tags = [tag for tag in configuration.get("Tags") or [] if tag.get("Key") != OWNER_TAG]
    owned = {**configuration, "Tags": [*tags, {"Key": OWNER_TAG, "Value": owner}]}
    # YAML 1.1 reads an escaped surrogate pair as two broken characters, so only what must be escaped is.
    return json.dumps(owned, indent=2, ensure_ascii=False)
