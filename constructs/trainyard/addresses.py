"""The split of a VPC's addresses between its private and its public subnet."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network


@dataclass(frozen=True)
class Blocks:
    """CIDRs of the two subnets."""

    private: str
    public: str


def split(cidr: str) -> Blocks:
    """Give the private subnet half of the VPC, and the public subnet a small block of the other half.

    Every node and every file server uses a private address (a p5.48xlarge uses one: its other 31 interfaces are
    EFA-only and use none). The public subnet holds the NAT gateway and at most a head node and login nodes: a /24, or a
    quarter of a small VPC. The rest stays free for later changes.

    `cidr` is an IPv4 block of /16 to /24; ValueError otherwise.
    """
    block = IPv4Network(cidr)
    if not 16 <= block.prefixlen <= 24:
        raise ValueError(f"A VPC of {cidr}: its CIDR must be /16 to /24. Correct network.cidr.")
    private, rest = block.subnets(prefixlen_diff=1)
    public = next(rest.subnets(new_prefix=max(24, block.prefixlen + 2)))
    return Blocks(private=str(private), public=str(public))
