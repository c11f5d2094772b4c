"""Writes settings/data/instance_types.json and settings/data/region_families.json from moto's copy of EC2's answers.

Run it after an update of moto, in an environment that has moto:

    parallelcluster/.venv/bin/python scripts/instance_types.py

moto records DescribeInstanceTypes and DescribeInstanceTypeOfferings; the data is as old as moto's release. Add types
that moto does not have yet to settings/data/additions.json by hand; this script lists those that moto has by now.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import moto

RESOURCES = Path(moto.__file__).parent / "ec2" / "resources"
OUT = Path(__file__).parent.parent / "settings" / "data"


def main() -> None:
    """Write both files."""
    source = f"moto {importlib.metadata.version('moto')}, ec2/resources"
    types = {name: _facts(info) for name, info in sorted(_read(RESOURCES / "instance_types.json.gz").items())}
    kept = {name: facts for name, facts in types.items() if facts["architecture"] in {"x86_64", "arm64"}}
    _write(OUT / "instance_types.json", source, "types", kept)
    regions = {
        path.name.removesuffix(".json.gz"): " ".join(sorted({row["InstanceType"].split(".")[0] for row in _read(path)}))
        for path in sorted((RESOURCES / "instance_type_offerings" / "region").glob("*.json.gz"))
    }
    _write(OUT / "region_families.json", source, "regions", regions)
    added = json.loads((OUT / "additions.json").read_text(encoding="utf-8"))["types"]
    for name in sorted(added.keys() & kept.keys()):
        print(f"moto has {name} now: remove it from additions.json")


def _read(path: Path) -> Any:  # noqa: ANN401 - JSON
    with gzip.open(path) as stream:
        return json.load(stream)


def _facts(info: dict[str, Any]) -> dict[str, object]:
    """The facts that differ from the defaults of `settings.instances.InstanceFacts`."""
    architectures = info["ProcessorInfo"]["SupportedArchitectures"]
    if "mac" in info["InstanceType"]:
        architectures = []
    gpus = [gpu for gpu in info.get("GpuInfo", {}).get("Gpus", []) if gpu.get("Manufacturer") == "NVIDIA"]
    neuron = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    network = info["NetworkInfo"]
    facts: dict[str, object] = {
        "vcpus": info["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": info["MemoryInfo"]["SizeInMiB"],
        "architecture": next((name for name in ("x86_64", "arm64") if name in architectures), "other"),
    }
    optional: dict[str, object] = {
        "gpus": sum(gpu.get("LogicalGpuCount") or gpu["Count"] for gpu in gpus),
        "gpu": gpus[0]["Name"] if gpus else "",
        "gpu_memory_mib": gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else 0,
        "neuron_devices": sum(device["Count"] for device in neuron),
        "efa_interfaces": network.get("EfaSupported") and network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "nvme_gb": info.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    }
    facts.update({name: value for name, value in optional.items() if value})
    if network.get("MaximumNetworkCards", 1) > 1:
        facts["network_cards"] = network["MaximumNetworkCards"]
    return facts


def _write(path: Path, source: str, name: str, rows: dict[str, Any]) -> None:
    lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in rows.items()]
    body = ",\n".join(lines)
    text = f'{{"source": {json.dumps(source)},\n "{name}": {{\n{body}\n }}\n}}\n'
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
