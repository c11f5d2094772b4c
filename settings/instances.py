"""Facts about EC2 instance types.

`scripts/instance_types.py` generates instance_types.json and region_families.json. `additions.json` is written by hand,
in the same form, for types and offers that the generated files do not have yet; its entries win.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class InstanceFacts:
    """One instance type.

    Attributes:
        memory_mib: memory of the whole instance, MiB.
        architecture: x86_64 or arm64.
        gpus: number of NVIDIA GPUs.
        gpu: name of the GPU, for example H100.
        gpu_memory_mib: memory of one GPU, MiB.
        nvme_gb: size of all local NVMe disks together, GB.
    """

    vcpus: int
    memory_mib: int
    architecture: str
    gpus: int = 0
    gpu: str = ""
    gpu_memory_mib: int = 0
    neuron_devices: int = 0
    efa_interfaces: int = 0
    network_cards: int = 1
    nvme_gb: int = 0


def _read(name: str, table: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))[table]
    return data


@cache
def instance_types() -> dict[str, InstanceFacts]:
    """All known types by name: x86_64 and arm64, without Macs."""
    types = _read("instance_types.json", "types") | _read("additions.json", "types")
    return {name: InstanceFacts(**facts) for name, facts in types.items()}


@cache
def region_families() -> dict[str, frozenset[str]]:
    """The instance families (`p5e` of `p5e.48xlarge`) that each known region offers."""
    known, added = _read("region_families.json", "regions"), _read("additions.json", "regions")
    return {name: frozenset(f"{families} {added.get(name, '')}".split()) for name, families in known.items()}
