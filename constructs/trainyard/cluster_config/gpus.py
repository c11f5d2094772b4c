"""Which instance types have GPUs that ParallelCluster can check."""

from __future__ import annotations

import re

_NVIDIA_FAMILIES = re.compile(r"(p|g|gr)\d")


def has_nvidia_gpus(instance_type: str) -> bool:
    """Whether `instance_type` has NVIDIA GPUs, told from its family: p*, g* and gr*, but g4ad, which is AMD's."""
    return _NVIDIA_FAMILIES.match(instance_type) is not None and not instance_type.startswith("g4ad.")
