"""Which instance types have GPUs that ParallelCluster can check."""

from __future__ import annotations

from settings.instances import instance_types


def has_gpus(instance_type: str) -> bool:
    """Whether `instance_type` has GPUs, which in the table are all NVIDIA's; of a type that nobody knows, no."""
    facts = instance_types().get(instance_type)
    return facts is not None and facts.gpus > 0
