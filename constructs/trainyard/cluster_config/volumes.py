"""Root volumes."""

from __future__ import annotations

from settings.model.cluster import RootVolume
from trainyard.cluster_config.section import Section


def root_volume(volume: RootVolume) -> Section:
    """An encrypted gp3 root volume: size in GiB, throughput in MB/s."""
    return {
        "VolumeType": "gp3",
        "Size": volume.size_gib,
        "Iops": volume.iops,
        "Throughput": volume.throughput,
        "Encrypted": True,
    }
