"""What is known of EC2's instance types, from the data files that `scripts/instance_types.py` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class InstanceFacts:
    """One instance type. `memory_mib` of the whole instance, `gpu_memory_mib` of one GPU, `nvme_gb` of all
    local disks.
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


@cache
def instance_types() -> dict[str, InstanceFacts]:
    """All known types by name: x86_64 and arm64, without Macs."""
    data = json.loads((DATA / "instance_types.json").read_text(encoding="utf-8"))
    return {name: InstanceFacts(**facts) for name, facts in data["types"].items()}


@cache
def region_families() -> dict[str, frozenset[str]]:
    """The instance families (`p5e` of `p5e.48xlarge`) that a region offers, for the regions that are known."""
    data = json.loads((DATA / "region_families.json").read_text(encoding="utf-8"))
    return {region: frozenset(families.split()) for region, families in data["regions"].items()}
