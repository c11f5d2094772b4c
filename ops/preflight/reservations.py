"""Capacity reservations as DescribeCapacityReservations returns them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOT_STARTED = ("assessing", "scheduled", "pending", "payment-pending", "delayed")
"""`pending`, and those in which ParallelCluster lets a block be inactive (pcluster 3.16.1, constants.py)."""
_SIZE = "aws:ec2capacityreservation:incrementalRequestedQuantity"


def size(record: Mapping[str, Any]) -> int:
    """The number of instances. Before a capacity block starts, only a tag has it (EC2, "View Capacity Blocks")."""
    tags = {tag["Key"]: tag["Value"] for tag in record.get("Tags", [])}
    return int(record.get("TotalInstanceCount") or tags.get(_SIZE, 0))


def is_block(record: Mapping[str, Any]) -> bool:
    """Whether it is a capacity block."""
    return record.get("ReservationType") == "capacity-block"
