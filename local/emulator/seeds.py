"""What exists in an account before a deployment: reservations that were bought, quotas that were raised, and the like.

A seeds file is JSON; every key may be absent:

    {"capacity_reservations": [{"id": "cr-0123456789abcdef0", "instance_type": "p5e.48xlarge",
                                "zone_id": "apse3-az1", "count": 80, "type": "on-demand"}],
     "ssm_parameters": {"/images/base": "ami-0123456789abcdef0"},
     "quotas": [{"quota": "ec2/L-417A185B", "value": 384}],
     "instances": [{"instance_type": "p5.48xlarge", "count": 1, "lifecycle": "spot"}],
     "not_offered": [{"instance_type": "p5.48xlarge", "zone_id": "use1-az4"}],
     "missing_images": ["aws-parallelcluster-*-ubuntu-2204-*"],
     "taken_buckets": ["acme-data"]}

A reservation's `type` is on-demand (the default) or capacity-block, `count` a number of instances. It may have
`available` (instances that are free, all by default), `state` (active), `tenancy` (default), `platform` (Linux/UNIX),
`owner` (an account id), `starts` and `ends` (ISO 8601). A `quota` is named by service and code (quotas.py lists them).
`instances` run in the account's default VPC; `lifecycle` is on-demand (the default), spot or capacity-block,
`reservation` the id of the one that they take room in, `tags` a mapping. `taken_buckets` are somebody else's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import ssm

from local.emulator import accounts, quotas
from local.emulator.ec2 import catalogue, images
from local.emulator.wire import Ec2Error

TYPES = ("on-demand", "capacity-block")
KEYS = (
    "capacity_reservations",
    "ssm_parameters",
    "quotas",
    "instances",
    "not_offered",
    "missing_images",
    "taken_buckets",
)


class SeedError(ValueError):
    """A seeds file that does not fit its format or the region."""


def load(path: Path) -> None:
    """Put the seeds of a file into the current account and region; raises SeedError naming the entry at fault."""
    put(json.loads(path.read_text()), str(path))


def put(seeds: dict[str, Any], path: str = "seeds") -> dict[str, Any]:
    """Put seeds into the current account and region, in the place of those of the same name.

    Raises:
        SeedError: naming the entry at fault and `path`.
    """
    unknown = set(seeds) - set(KEYS)
    if unknown:
        raise SeedError(f"{path}: unknown {', '.join(sorted(unknown))}; allowed: {', '.join(KEYS)}")
    # What is taken away last: what is there may need it.
    for key, act in _ACTS.items():
        for index, entry in enumerate(_entries(seeds.get(key, []))):
            try:
                act(entry)
            except KeyError as error:
                raise SeedError(f"{path}: {key}[{index}] lacks {error}") from error
            except (Ec2Error, quotas.QuotaError, TypeError, ValueError) as error:
                raise SeedError(f"{path}: {key}[{index}]: {error}") from error
    return {}


def put_in(wish: dict[str, Any]) -> dict[str, Any]:
    """As put, into another account: {account, region, seeds}."""
    with request_scope(wish["account"], wish["region"]):
        return put(wish["seeds"])


def _entries(given: Any) -> list[Any]:
    return list(given.items()) if isinstance(given, dict) else list(given)


def _reserve(entry: dict[str, Any]) -> None:
    kind = entry.get("type", "on-demand")
    if kind not in TYPES:
        raise ValueError(f"type is {kind!r}; allowed: {', '.join(TYPES)}")
    accounts.reserve(entry, block=kind == "capacity-block")


def _parameter(entry: tuple[str, Any]) -> None:
    name, value = entry
    ssm._put_parameter({"Name": name, "Value": str(value), "Type": "String", "Overwrite": True})


_ACTS: dict[str, Callable[[Any], None]] = {
    "capacity_reservations": _reserve,
    "ssm_parameters": _parameter,
    "quotas": lambda entry: quotas.apply(entry["quota"], float(entry["value"])),
    "instances": lambda entry: accounts.run_instances(**entry),
    "not_offered": lambda entry: catalogue.withdraw(entry["instance_type"], entry["zone_id"]),
    "missing_images": images.MISSING.add,
    "taken_buckets": accounts.take_bucket_name,
}
