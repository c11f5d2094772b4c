"""Addresses, zones and who may connect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from settings.faults import KeyPath
from settings.instances import instance_types
from settings.model import Environment
from settings.model.cluster import HeadNode, LoginNodes
from settings.rules.items import Finding, Items, computes, for_each, listed, lustres

SHORTEST_PREFIX, LONGEST_PREFIX = 16, 24
DOCKER = IPv4Network("172.17.0.0/16")
PRIVATE = tuple(IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
SHORTEST_CLIENT_PREFIX = 8
RESERVED_BY_AWS = 5
ENDPOINTS = 16
OF_DATABASE = 2  # the instance, and a second one while Aurora replaces it
COMPASS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "gov": "g"}


def _parsed(cidr: str, *, strict: bool = True) -> IPv4Network | None:
    try:
        return IPv4Network(cidr, strict)
    except ValueError:
        return None


def _address(key: KeyPath, cidr: str) -> Iterator[Finding]:
    if _parsed(cidr) is None:
        network = _parsed(cidr, strict=False)
        allowed = "an IPv4 CIDR block without host bits, for example 10.0.0.0/16"
        yield Finding(key, cidr, allowed, f"use {network}" if network else "")


def address_needs(environment: Environment) -> dict[str, int]:
    """How many addresses of the private subnet each kind of resource uses.

    A node with EFA uses one: EFA interfaces on the other network cards have no address. Without EFA it uses one per
    card. Lustre uses one per file server (at most one server per 1200 GiB) and one for metadata. In an existing
    network no endpoints are created, and EC2 does not count the addresses that AWS reserves as free.
    """
    nodes = 0
    for _, compute in computes(environment):
        cards = [facts.network_cards for name in compute.instance_types if (facts := instance_types().get(name))]
        nodes += compute.max * (1 if compute.efa else max(cards, default=1))
    login = environment.cluster.login_nodes
    accounting, new = environment.cluster.slurm.accounting, environment.network.existing is None
    return {
        "compute nodes": nodes,
        "head node": 1,
        "login nodes and their load balancer": login.count + 1 if login else 0,
        "Lustre servers": sum(-(-lustre.capacity_gib // 1200) + 1 for _, lustre in lustres(environment)),
        "OpenZFS": 1,
        "accounting database": int(bool(accounting and accounting.own)) * OF_DATABASE,
        "monitoring host": int(environment.observability.prometheus),
        "endpoints": ENDPOINTS if new else 0,
        "reserved by AWS": RESERVED_BY_AWS if new else 0,
    }


def vpc_cidr(environment: Environment) -> Iterator[Finding]:
    """The VPC's network is private (RFC 1918 or RFC 6598), /16 to /24, and not 172.17.0.0/16, Docker's bridge.

    The private subnet, which is half of the VPC, has enough addresses. Source: VPC user guide, "VPC CIDR blocks".
    """
    network, existing = environment.network, environment.network.existing
    key: KeyPath = ("network", "existing", "vpc_cidr") if existing else ("network", "cidr")
    cidr = existing.vpc_cidr if existing else network.cidr
    yield from _address(key, cidr)
    parsed = _parsed(cidr)
    if parsed is None:
        return
    if parsed.overlaps(DOCKER):
        yield Finding(key, cidr, f"a network that does not overlap with {DOCKER}, which Docker uses on the nodes")
    if existing:
        return
    if not any(parsed.subnet_of(private) for private in PRIVATE):
        yield Finding(key, cidr, f"a part of {', '.join(map(str, PRIVATE))}")
    needed, available = sum(address_needs(environment).values()), parsed.num_addresses // 2
    if not SHORTEST_PREFIX <= parsed.prefixlen <= LONGEST_PREFIX:
        yield Finding(key, cidr, f"/{SHORTEST_PREFIX} to /{LONGEST_PREFIX}")
    elif needed > available:
        prefix = 31 - (needed - 1).bit_length()  # half of it has as many addresses
        advice = f"use a /{prefix}" if prefix >= SHORTEST_PREFIX else "use several environments"
        given = f"{cidr}, of which the private subnet has {available} addresses"
        yield Finding(key, given, f"at least {needed} addresses for this fleet", advice)


def clients(environment: Environment) -> Iterator[Finding]:
    """Clients are named networks, not the whole internet. Networks larger than /8 would be the internet in pieces."""
    for key, cidr in listed(("network", "clients"), environment.network.clients):
        parsed = _parsed(cidr)
        yield from _address(key, cidr)
        if parsed and parsed.prefixlen < SHORTEST_CLIENT_PREFIX:
            advice = "name your own network, for example 203.0.113.7/32, or connect through SSM and leave it out"
            yield Finding(key, cidr, f"/{SHORTEST_CLIENT_PREFIX} to /32", advice)


def existing(environment: Environment) -> Iterator[Finding]:
    """An existing VPC cannot be changed: Trainyard only adds security groups to it."""
    network = environment.network
    if network.existing is None:
        return
    for name in sorted(network.model_fields_set & {"cidr", "egress"}):
        allowed = "no value together with existing: the VPC's owner decides"
        yield Finding(("network", name), str(getattr(network, name)), allowed, "remove the key")
    if network.existing.private_subnet_id == network.existing.public_subnet_id:
        allowed = "a subnet other than the private one"
        yield Finding(("network", "existing", "public_subnet_id"), network.existing.private_subnet_id, allowed)


def _public(environment: Environment) -> Items[HeadNode | LoginNodes]:
    for name in ("head_node", "login_nodes"):
        nodes: HeadNode | LoginNodes | None = getattr(environment.cluster, name)
        if nodes and nodes.subnet == "public":
            yield ("cluster", name), nodes


@for_each(_public)
def public(environment: Environment, key: KeyPath, nodes: HeadNode | LoginNodes) -> Iterator[Finding]:
    """A public node needs a public subnet, a client that may connect, and a single network card.

    AWS assigns no public address to an instance with several interfaces. Source: EC2 user guide, "Public IPv4
    addresses"; ParallelCluster, MultiNetworkInterfacesInstancesValidator.
    """
    network = environment.network
    at = (*key, "subnet")
    if network.existing and not network.existing.public_subnet_id:
        yield Finding(at, "public, without network.existing.public_subnet_id", "private, or a public subnet's id there")
    if not network.existing and network.egress == "endpoints-only":
        allowed = "private: a network with endpoints only has no internet gateway"
        advice = "connect through SSM, or use egress: nat"
        yield Finding(at, "public, with network.egress endpoints-only", allowed, advice)
    if not network.clients:
        advice = "add your network to network.clients, or use private and connect through SSM"
        yield Finding(at, "public, without network.clients", "private, because network.clients is empty", advice)
    facts = instance_types().get(nodes.instance_type)
    if facts and facts.network_cards > 1:
        given = f"{nodes.instance_type} with {facts.network_cards} network cards in a public subnet"
        yield Finding((*key, "instance_type"), given, "a type with one network card, or subnet: private")


def zone_prefix(region: str) -> str | None:
    """The prefix of a region's zone ids, `apse3` for `ap-southeast-3`; None if the name is not a region's."""
    match = re.fullmatch(r"([a-z]{2})-(gov-)?(north|south|central)?(east|west|north|south)?-(\d)", region)
    if not match or not (match[3] or match[4]):
        return None
    area, gov, first, second, number = match.groups()
    return area + ("g" if gov else "") + COMPASS.get(first or "", "") + COMPASS.get(second or "", "") + number


def zone(environment: Environment) -> Iterator[Finding]:
    """The zone is in the region: zone ids start with the area, the initials of the direction and the number.

    Source: AWS regions and zones, "Availability Zone IDs".
    """
    prefix = zone_prefix(environment.region)
    if prefix is None:
        yield Finding(("region",), environment.region, "an AWS region, for example us-east-1 or ap-southeast-3")
    elif environment.network.zone.split("-")[0] != prefix:
        given = f"{environment.network.zone}, with region {environment.region}"
        yield Finding(("network", "zone"), given, f"{prefix}-az1, {prefix}-az2 and so on")


RULES = (vpc_cidr, clients, existing, public, zone)
