"""What ParallelCluster's own update policies say of steps from one configuration to another:

    parallelcluster/.venv/bin/python -m parallelcluster.policies < STEPS

STEPS is a JSON object `{"<step>": {"name": <cluster>, "old": <configuration>, "new": <configuration>}}`. Prints a JSON
object with `examine`'s answer for each step. Nothing of the policies is repeated here: each change is checked by its
own policy, as the API's update does it, once for each state that the cluster may be in.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pcluster.config.cluster_config import QueueUpdateStrategy
from pcluster.config.config_patch import Change, ConfigPatch
from pcluster.config.update_policy import UpdatePolicy

Json = Mapping[str, Any]

CAREFUL = QueueUpdateStrategy.COMPUTE_FLEET_STOP.value
_IDENTITY = ("Name", "Key", "BucketName", "Policy", "Id")


@dataclass
class _Cluster:
    """What the policies ask the cluster."""

    name: str
    fleet_runs: bool
    login_runs: bool
    head_runs: bool = True

    @property
    def stack_name(self) -> str:
        return self.name

    @property
    def head_node_instance(self) -> SimpleNamespace:
        return SimpleNamespace(state="running" if self.head_runs else "stopped")

    def has_running_capacity(self, updated_value: bool = False) -> bool:  # noqa: ARG002 - the genuine signature
        return self.fleet_runs

    def has_running_login_nodes(self, updated_value: bool = False, pool_name: str | None = None) -> bool:  # noqa: ARG002
        return self.login_runs


def examine(name: str, old: Json, new: Json) -> dict[str, Any]:
    """What each change from `old` to `new` needs.

    Returns:
        `changes`: a list, each with `path`, `old`, `new`, `policy` (the package's name of it), `ignored` (the API does
        not count it as a change), `needs` (nothing, fleet, login, fleet-and-login, head, new-cluster: what must be
        stopped or made), `strategies` (values of QueueUpdateStrategy that let it pass while the fleet runs), `reason`
        (in the package's words, when everything runs), `internal_error` (the API fails on it, with HTTP 500,
        while the fleet runs).
        `accepted`: whether the API takes the update as it is, by the state of the fleet: `running`, `stopped`.
        `strategy`: the new configuration's QueueUpdateStrategy.
    """
    pools = (old.get("LoginNodes") or {}).get("Pools") or []
    login = any(int(pool.get("Count", 1)) > 0 for pool in pools)
    running, stopped = _Cluster(name, True, login), _Cluster(name, False, login)
    # The package writes marks into what it compares, so it gets copies.
    patch = ConfigPatch(running, json.loads(json.dumps(old)), json.loads(json.dumps(new)))
    settings = (patch.target_config.get("Scheduling") or {}).get("SlurmSettings") or {}
    return {
        "changes": [_examined(change, patch, login) for change in patch.changes],
        "accepted": {"running": _accepted(patch, running), "stopped": _accepted(patch, stopped)},
        "strategy": settings.get("QueueUpdateStrategy", CAREFUL),
    }


def _examined(change: Change, patch: ConfigPatch, login: bool) -> dict[str, Any]:
    name = patch.cluster.name
    running = _Cluster(name, True, login)
    states = {
        "nothing": running,
        "fleet": _Cluster(name, False, login),
        "login": _Cluster(name, True, False),
        "fleet-and-login": _Cluster(name, False, False),
        "head": _Cluster(name, False, False, head_runs=False),
    }
    needs = next((state for state, cluster in states.items() if _checked(change, patch, cluster)[0]), "new-cluster")
    strategies = [s.value for s in QueueUpdateStrategy if needs != "nothing"]
    _, reason, internal_error = _checked(change, patch, running)
    return {
        "path": _path(change),
        "old": None if change.old_value == "-" else change.old_value,
        "new": None if change.new_value == "-" else change.new_value,
        "policy": change.update_policy.name,
        "ignored": needs == "nothing" and not change.update_policy.print_succeeded,
        "needs": needs,
        "strategies": [strategy for strategy in strategies if _checked(change, patch, running, strategy)[0]],
        "reason": reason,
        "internal_error": internal_error,
    }


def _checked(change: Change, patch: ConfigPatch, cluster: _Cluster, strategy: str = CAREFUL) -> tuple[bool, str, bool]:
    """Whether a change passes its policy in a state, the policy's reason, and whether it failed."""
    with _circumstances(patch, cluster, strategy):
        try:
            result, reason, *_ = change.update_policy.check(change, patch)
        except Exception as error:
            # Some policies cannot read a change that they are asked about; the API answers HTTP 500.
            return False, f"{type(error).__name__}: {error}", True
    return result == UpdatePolicy.CheckResult.SUCCEEDED, "" if reason == "-" else str(reason), False


def _accepted(patch: ConfigPatch, cluster: _Cluster) -> bool:
    """The whole patch with the new configuration's own strategy."""
    with _circumstances(patch, cluster, None):
        try:
            return bool(patch.check()[0])
        except Exception:
            # As in _checked: a policy that cannot read the change. The API answers HTTP 500 and changes nothing.
            return False


@contextmanager
def _circumstances(patch: ConfigPatch, cluster: _Cluster, strategy: str | None) -> Iterator[None]:
    present, target = patch.cluster, patch.target_config
    patch.cluster = cluster
    if strategy is not None:
        scheduling = target.get("Scheduling", {})
        settings = {**scheduling.get("SlurmSettings", {}), "QueueUpdateStrategy": strategy}
        patch.target_config = {**target, "Scheduling": {**scheduling, "SlurmSettings": settings}}
    try:
        yield
    finally:
        patch.cluster, patch.target_config = present, target


def _path(change: Change) -> str:
    value = change.new_value if change.new_value is not None else change.old_value
    item = ""
    if change.is_list and isinstance(value, Mapping):
        item = next((f"[{value[key]}]" for key in _IDENTITY if key in value), "")
    return ".".join([*change.path, f"{change.key}{item}"])


def main() -> None:
    """Examine each step of standard input."""
    answers = {}
    for key, step in json.load(sys.stdin).items():
        old, new = step["old"], step["new"]
        # Some policies depend on the region's partition, which the package reads from here.
        os.environ["AWS_DEFAULT_REGION"] = str(new.get("Region") or old.get("Region") or "us-east-1")
        answers[key] = examine(step["name"], old, new)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
