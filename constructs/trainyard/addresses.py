"""The split of a VPC's addresses between its subnets."""

from __future__ import annotations

from ipaddress import IPv4Network


def split(cidr: str) -> tuple[str, str]:
    """CIDRs of the private subnet, half of the VPC, and of the public subnet, a small block of the other half.

    Every node and every file server uses a private address (a p5.48xlarge uses one: its other 31 interfaces are
    EFA-only and use none). The public subnet holds the NAT gateway and at most a head node and login nodes: a /24, or a
    quarter of a small VPC. The rest stays free for later changes.
    """
    block = IPv4Network(cidr)
    private, rest = block.subnets(prefixlen_diff=1)
    public = next(rest.subnets(new_prefix=max(24, block.prefixlen + 2)))
    return str(private), str(public)


def database_block(cidr: str) -> str:
    """CIDR of the subnet in a second zone, where only a database is: the last /28 of the VPC, the least of a subnet."""
    block = IPv4Network(cidr)
    return str(IPv4Network((int(block.broadcast_address) - 15, 28)))
