"""Keys that the examples edit, and values that several of them use."""

from __future__ import annotations

from typing import Any

Good = dict[str, Any]
"""Edits of the good environment, after which it is good still."""
Bad = tuple[dict[str, Any], str, str]
"""Edits, the key of the fault, a part of its text."""

L, Z, C, N, M = "storage.lustre.0", "storage.openzfs", "cluster", "network", "models"
Q = f"{C}.queues.0"
P = f"{Q}.compute.0"
NO_MODELS: dict[str, Any] = {M: []}
EXISTING = {
    "vpc_id": "vpc-0123456789abcdef0",
    "vpc_cidr": "10.0.0.0/16",
    "private_subnet_id": "subnet-0123456789abcdef0",
}
