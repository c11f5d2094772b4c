"""What exists in an account before a deployment: reservations that were bought, parameters that someone wrote.

A seeds file is JSON:

    {"capacity_reservations": [{"id": "cr-0123456789abcdef0", "instance_type": "p5e.48xlarge",
                                "zone_id": "apse3-az1", "count": 80, "type": "on-demand"}],
     "ssm_parameters": {"/images/base": "ami-0123456789abcdef0"}}

`type` is on-demand (the default) or capacity-block; `count` is a number of instances. Both keys may be absent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ministack.services import ssm

from local.world.ec2 import reservations
from local.world.wire import Ec2Error

TYPES = ("on-demand", "capacity-block")
KEYS = ("capacity_reservations", "ssm_parameters")


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
    for index, entry in enumerate(seeds.get("capacity_reservations", [])):
        kind = entry.get("type", "on-demand")
        if kind not in TYPES:
            raise SeedError(f"{path}: capacity_reservations[{index}].type is {kind!r}; allowed: {', '.join(TYPES)}")
        try:
            reservations.add(
                reservation_id=entry["id"],
                instance_type=entry["instance_type"],
                zone_id=entry["zone_id"],
                count=int(entry["count"]),
                block=kind == "capacity-block",
            )
        except KeyError as error:
            raise SeedError(f"{path}: capacity_reservations[{index}] lacks {error}") from error
        except Ec2Error as error:
            raise SeedError(f"{path}: capacity_reservations[{index}]: {error}") from error
    for name, value in seeds.get("ssm_parameters", {}).items():
        ssm._put_parameter({"Name": name, "Value": str(value), "Type": "String", "Overwrite": True})
    return {}
