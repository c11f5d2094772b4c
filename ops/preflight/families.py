"""Families of instance types that share a quota on vCPUs.

Source: AWS General Reference, "Amazon EC2 quotas", read on 2026-11-21. Quotas without a code there are found by name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ops.preflight.context import Quota


class Family(NamedTuple):
    """A family's quotas, in vCPUs. `spot` is None if AWS documents none."""

    on_demand: Quota
    spot: Quota | None


_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_ROWS = (
    # Letters of the types, on-demand quota and its code, spot quota and its code.
    ("a c d h i m r t z im is", _STANDARD, "L-1216C47A", _STANDARD, "L-34B43A08"),
    ("g gr vt", "G and VT", "L-DB2E81BA", "G and VT", "L-3819A6DF"),
    ("p2 p3 p4", "P", "L-417A185B", "P4, P3 and P2", "L-7212CCBC"),
    ("p5", "P", "L-417A185B", "P5", "L-C4BD4855"),
    ("p6", "P", "L-417A185B", None, ""),
    ("x", "X", "", "X", "L-E3A00192"),
    ("inf", "Inf", "L-1945791B", "Inf", "L-B5D1601B"),
    ("trn", "Trn", "L-2C3B7624", "Trn", "L-6B0D517C"),
    ("dl", "DL", "", "DL", "L-85EED4F7"),
    ("f", "F", "", "F", "L-88CF9481"),
    ("hpc", "HPC", "", None, ""),
    ("u", "High Memory", "", None, ""),
)
FAMILIES = {
    letters: Family(
        Quota("ec2", f"Running On-Demand {on_demand} instances", code),
        Quota("ec2", f"All {spot} Spot Instance Requests", spot_code) if spot else None,
    )
    for names, on_demand, code, spot, spot_code in _ROWS
    for letters in names.split()
}
"""By the letters of the type, for P with the generation: "p5"."""


def family_of(instance_type: str) -> Family | None:
    """The family of an instance type; None for an unknown one, which includes unknown generations of P."""
    match = re.match(r"p\d+|[a-z]+", instance_type)
    return FAMILIES.get(match[0]) if match else None
