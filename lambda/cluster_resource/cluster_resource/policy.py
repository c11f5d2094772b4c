"""What an update may do to a cluster beside changing it: stop its fleet, replace it, end running jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster_resource.configuration import ConfigurationError

_ALLOWED = {
    "StopFleet": ("never", "when-needed"),
    "Replace": ("never", "when-needed"),
    "RunningJobs": ("protect", "may-be-killed"),
}


@dataclass(frozen=True)
class Policy:
    """`rollback`: the update is CloudFormation's way back, which ends in a wedged stack if it fails."""

    stop_fleet: bool = False
    replace: bool = False
    kill_jobs: bool = False
    rollback: bool = False


def policy_of(event: Mapping[str, Any], *, rollback: bool) -> Policy:
    """The policy of an event's property `Updates`, each key of which may be left out for the careful value.

    A rollback may do what the update that it undoes was allowed to do: its own properties are the ones from before, in
    which the permission may not have been given yet.

    Raises:
        ConfigurationError: a value that is none of the policy's.
    """
    sides = [_values(event, "ResourceProperties")]
    if rollback:
        sides.append(_values(event, "OldResourceProperties"))
    given = {key: {side.get(key, allowed[0]) for side in sides} for key, allowed in _ALLOWED.items()}
    return Policy(
        stop_fleet="when-needed" in given["StopFleet"],
        replace="when-needed" in given["Replace"],
        kill_jobs="may-be-killed" in given["RunningJobs"],
        rollback=rollback,
    )


def _values(event: Mapping[str, Any], where: str) -> Mapping[str, str]:
    given = (event.get(where) or {}).get("Updates") or {}
    if not isinstance(given, dict):
        raise ConfigurationError(f"Updates must map {', '.join(_ALLOWED)} to their values.")
    for key, value in given.items():
        if key not in _ALLOWED:
            raise ConfigurationError(f"Updates has the key {key!r}; allowed are {', '.join(_ALLOWED)}.")
        if value not in _ALLOWED[key]:
            raise ConfigurationError(f"Updates.{key} is {value!r}; allowed are {' and '.join(_ALLOWED[key])}.")
    return given
