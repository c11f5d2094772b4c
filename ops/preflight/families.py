"""Families of instance types that share a quota on vCPUs.

Source: AWS General Reference, "Amazon EC2 quotas", read on 2026-11-21. Quotas without a code there are found by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ops.preflight.quotas import Quota


@dataclass(frozen=True)
class Family:
    """A family's quotas, in vCPUs. `spot` is None if AWS documents none."""

    on_demand: Quota
    spot: Quota | None


def _family(on_demand: str, spot: str | None, codes: tuple[str, str] = ("", "")) -> Family:
    return Family(Quota("ec2", on_demand, codes[0]), Quota("ec2", spot, codes[1]) if spot else None)


STANDARD = _family(
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    ("L-1216C47A", "L-34B43A08"),
)
G_VT = _family(
    "Running On-Demand G and VT instances", "All G and VT Spot Instance Requests", ("L-DB2E81BA", "L-3819A6DF")
)
_P = "Running On-Demand P instances"
P4 = _family(_P, "All P4, P3 and P2 Spot Instance Requests", ("L-417A185B", "L-7212CCBC"))
P5 = _family(_P, "All P5 Spot Instance Requests", ("L-417A185B", "L-C4BD4855"))
P6 = _family(_P, None, ("L-417A185B", ""))
_P_GENERATIONS = {"2": P4, "3": P4, "4": P4, "5": P5, "6": P6}
_BY_LETTERS = {
    **dict.fromkeys([*"acdhimrtz", "im", "is"], STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), G_VT),
    "x": _family("Running On-Demand X instances", "All X Spot Instance Requests", ("", "L-E3A00192")),
    "inf": _family("Running On-Demand Inf instances", "All Inf Spot Instance Requests", ("L-1945791B", "L-B5D1601B")),
    "trn": _family("Running On-Demand Trn instances", "All Trn Spot Instance Requests", ("L-2C3B7624", "L-6B0D517C")),
    "dl": _family("Running On-Demand DL instances", "All DL Spot Instance Requests", ("", "L-85EED4F7")),
    "f": _family("Running On-Demand F instances", "All F Spot Instance Requests", ("", "L-88CF9481")),
    "hpc": _family("Running On-Demand HPC instances", None),
    "u": _family("Running On-Demand High Memory instances", None),
}


def family_of(instance_type: str) -> Family | None:
    """The family of an instance type; None for an unknown one, which includes unknown generations of P."""
    match = re.match(r"([a-z]+)(\d*)", instance_type)
    if not match:
        return None
    return _P_GENERATIONS.get(match[2]) if match[1] == "p" else _BY_LETTERS.get(match[1])
