"""The families of instance types that share a quota on vCPUs.

Source: AWS General Reference, "Amazon EC2 quotas", read on 2026-11-21. Codes that the page gives are written here; the
others are found by the quota's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ops.preflight.quotas import Quota


@dataclass(frozen=True)
class Family:
    """A family and its quotas, in vCPUs; `spot` is None where AWS documents none."""

    name: str
    on_demand: Quota
    spot: Quota | None


def _family(name: str, on_demand: str, spot: str | None, codes: tuple[str, str] = ("", "")) -> Family:
    return Family(name, Quota("ec2", on_demand, codes[0]), Quota("ec2", spot, codes[1]) if spot else None)


STANDARD = _family(
    "Standard",
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    ("L-1216C47A", "L-34B43A08"),
)
G_VT = _family(
    "G and VT",
    "Running On-Demand G and VT instances",
    "All G and VT Spot Instance Requests",
    ("L-DB2E81BA", "L-3819A6DF"),
)
_P_ON_DEMAND = "Running On-Demand P instances"
# One quota for all P on demand; on spot P5 has one of its own, and P6 has none that the page names.
P4 = _family("P", _P_ON_DEMAND, "All P4, P3 and P2 Spot Instance Requests", ("L-417A185B", "L-7212CCBC"))
P5 = _family("P", _P_ON_DEMAND, "All P5 Spot Instance Requests", ("L-417A185B", "L-C4BD4855"))
P6 = _family("P", _P_ON_DEMAND, None, ("L-417A185B", ""))
_OTHERS = {
    "x": _family("X", "Running On-Demand X instances", "All X Spot Instance Requests", ("", "L-E3A00192")),
    "inf": _family(
        "Inf", "Running On-Demand Inf instances", "All Inf Spot Instance Requests", ("L-1945791B", "L-B5D1601B")
    ),
    "trn": _family(
        "Trn", "Running On-Demand Trn instances", "All Trn Spot Instance Requests", ("L-2C3B7624", "L-6B0D517C")
    ),
    "dl": _family("DL", "Running On-Demand DL instances", "All DL Spot Instance Requests", ("", "L-85EED4F7")),
    "f": _family("F", "Running On-Demand F instances", "All F Spot Instance Requests", ("", "L-88CF9481")),
    "hpc": _family("HPC", "Running On-Demand HPC instances", None),
    "u": _family("High Memory", "Running On-Demand High Memory instances", None),
}
_STANDARD = frozenset("acdhimrtz")


def family_of(instance_type: str) -> Family | None:
    """The family of an instance type; None where no quota is known for it (a Mac, say)."""
    match = re.match(r"([a-z]+)(\d*)", instance_type)
    letters, number = (match[1], match[2]) if match else ("", "")
    if letters == "p":
        return {"5": P5, "6": P6}.get(number, P4)
    if letters in ("g", "gr", "vt"):
        return G_VT
    if letters in _OTHERS:
        return _OTHERS[letters]
    # im4gn and is4gen are of the I family.
    return STANDARD if letters in ("im", "is") or letters in _STANDARD else None
