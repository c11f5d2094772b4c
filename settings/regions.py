"""Partitions of AWS regions, and what FSx and the monitoring services offer in them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FSX_REGIONS = Path(__file__).parent / "data" / "fsx_regions.json"
MONITORING_REGIONS = Path(__file__).parent / "data" / "monitoring_regions.json"


@cache
def fsx_regions() -> dict[str, Any]:
    """What AWS's guides say about FSx's deployment types by region; no API lists them. See the data file's notes."""
    data: dict[str, Any] = json.loads(FSX_REGIONS.read_text("utf-8"))
    return data


@cache
def monitoring_regions() -> dict[str, list[str]]:
    """The regions of Amazon Managed Service for Prometheus and of Amazon Managed Grafana, by service."""
    data: dict[str, dict[str, list[str]]] = json.loads(MONITORING_REGIONS.read_text("utf-8"))
    return data["regions"]


def other_zone(zone: str) -> str:
    """The id of another zone of the region: its first or second. Source: AWS regions and zones, "Zone IDs"."""
    prefix = zone.rpartition("-")[0]
    second = "az3" if prefix == "usw1" else "az2"  # us-west-1 has no az2
    return f"{prefix}-{second if zone.endswith('-az1') else 'az1'}"


def partition(region: str) -> str:
    """The partition of a region: "aws", "aws-cn" or "aws-us-gov"."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def domain_suffix(region: str) -> str:
    """The domain of AWS endpoints in a region's partition."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
