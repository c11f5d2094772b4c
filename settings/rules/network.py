"""Addresses, zones and who may come in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from settings.faults import KeyPath
from settings.instances import instance_types
from settings.model import Environment
from settings.rules.finding import Finding, rule, rule_for_each
from settings.rules.items import computes, lustres

LARGEST, SMALLEST = 16, 24
DOCKER = IPv4Network("172.17.0.0/16")
PRIVATE = tuple(IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
WIDEST_CLIENT = 8
AWS_KEEPS = 5
ENDPOINTS = 16
COMPASS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "gov": "g"}


def _parsed(cidr: str) -> IPv4Network | None:
    try:
        return IPv4Network(cidr)
    except ValueError:
        return None


def _address(key: KeyPath, cidr: str) -> Iterator[Finding]:
    if _parsed(cidr) is None:
        try:
            advice = f"use {IPv4Network(cidr, strict=False)}"
        except ValueError:
            advice = ""
        yield Finding(key, cidr, "an IPv4 network, its address without host bits, for example 10.0.0.0/16", advice)


@rule
def vpc_cidr(environment: Environment) -> Iterator[Finding]:
    """Private (RFC 1918 or RFC 6598), from /16, which AWS ends at, to /24; apart from 172.17.0.0/16, which
    is Docker's bridge on the nodes.

    Source: VPC user guide, "VPC CIDR blocks".
    """
    network = environment.network
    existing = network.existing
    key: KeyPath = ("network", "existing", "vpc_cidr") if existing else ("network", "cidr")
    cidr = existing.vpc_cidr if existing else network.cidr
    yield from _address(key, cidr)
    parsed = _parsed(cidr)
    if parsed is None:
        return
    if not existing and not LARGEST <= parsed.prefixlen <= SMALLEST:
        yield Finding(key, cidr, f"/{LARGEST} to /{SMALLEST}")
    if not existing and not any(parsed.subnet_of(private) for private in PRIVATE):
        yield Finding(key, cidr, f"a part of {', '.join(map(str, PRIVATE))}")
    if parsed.overlaps(DOCKER):
        yield Finding(key, cidr, f"a network apart from {DOCKER}, which Docker uses on the nodes")


def address_needs(environment: Environment) -> dict[str, int]:
    """How many addresses of the private subnet each kind of thing takes.

    Each node takes one: EFA interfaces beyond the first network card have none. Without EFA, a type with several
    cards takes one a card. Lustre takes one a file server, at most one for 1200 GiB and one for metadata. In an
    existing network no endpoints are made, and what AWS keeps is no part of what is free.
    """
    nodes = 0
    for _, compute in computes(environment):
        cards = max(
            (facts.network_cards for t in compute.instance_types if (facts := instance_types().get(t))), default=1
        )
        nodes += compute.max * (1 if compute.efa else cards)
    login = environment.cluster.login_nodes
    new = environment.network.existing is None
    return {
        "compute nodes": nodes,
        "head node": 1,
        "login nodes and their balancer": login.count + 1 if login else 0,
        "Lustre servers": sum(-(-lustre.capacity_gib // 1200) + 1 for _, lustre in lustres(environment)),
        "OpenZFS": 1,
        "endpoints": ENDPOINTS if new else 0,
        "kept by AWS": AWS_KEEPS if new else 0,
    }


@rule
def room(environment: Environment) -> Iterator[Finding]:
    """The private subnet is half of the VPC, and has an address for everything that takes one."""
    network = environment.network
    parsed = _parsed(network.cidr)
    if network.existing or parsed is None or not LARGEST <= parsed.prefixlen <= SMALLEST:
        return
    needed = sum(address_needs(environment).values())
    available = parsed.num_addresses // 2
    if needed > available:
        prefix = next((size for size in range(SMALLEST, LARGEST - 1, -1) if 2 ** (31 - size) >= needed), None)
        advice = f"use a /{prefix}" if prefix else "use several environments"
        given = f"{network.cidr}, of which the private subnet has {available} addresses"
        yield Finding(("network", "cidr"), given, f"at least {needed} addresses for this fleet", advice)


@rule
def clients(environment: Environment) -> Iterator[Finding]:
    """Who may come in is named: the whole internet may not. Networks wider than /8 are the internet in
    pieces.
    """
    for index, cidr in enumerate(environment.network.clients):
        key = ("network", "clients", index)
        parsed = _parsed(cidr)
        yield from _address(key, cidr)
        if parsed and parsed.prefixlen < WIDEST_CLIENT:
            advice = "name your own network, for example 203.0.113.7/32, or connect through SSM and leave it out"
            yield Finding(key, cidr, f"/{WIDEST_CLIENT} or smaller", advice)


@rule
def existing(environment: Environment) -> Iterator[Finding]:
    """What only a new VPC takes; to an existing one Trainyard adds security groups alone."""
    network = environment.network
    if network.existing is None:
        return
    for name in ("cidr", "egress"):
        if name in network.model_fields_set:
            allowed = "nothing beside existing: the VPC's owner decides"
            yield Finding(("network", name), str(getattr(network, name)), allowed, "take the key out")
    if network.existing.private_subnet_id == network.existing.public_subnet_id:
        allowed = "a subnet other than the private one"
        yield Finding(("network", "existing", "public_subnet_id"), network.existing.private_subnet_id, allowed)


def _public(environment: Environment) -> Iterator[tuple[KeyPath, str]]:
    cluster = environment.cluster
    if cluster.head_node.subnet == "public":
        yield ("cluster", "head_node"), cluster.head_node.instance_type
    if cluster.login_nodes and cluster.login_nodes.subnet == "public":
        yield ("cluster", "login_nodes"), cluster.login_nodes.instance_type


@rule_for_each(_public)
def public(environment: Environment, key: KeyPath, instance_type: str) -> Iterator[Finding]:
    """A public node needs a public subnet, someone who may come in, and one network interface: AWS gives no
    public address to an instance with several.

    Source for the last: EC2 user guide, "Public IPv4 addresses"; ParallelCluster,
    MultiNetworkInterfacesInstancesValidator.
    """
    network = environment.network
    at = (*key, "subnet")
    if network.existing and not network.existing.public_subnet_id:
        yield Finding(at, "public, without network.existing.public_subnet_id", "private, or a public subnet's id there")
    if not network.existing and network.egress == "endpoints-only":
        allowed = "private: a network with endpoints only has no internet gateway"
        yield Finding(
            at, "public, with network.egress endpoints-only", allowed, "connect through SSM, or use egress: nat"
        )
    if not network.clients:
        advice = "add your network to network.clients, or stay private and connect through SSM"
        yield Finding(at, "public, without network.clients", "private as long as nobody may come in", advice)
    facts = instance_types().get(instance_type)
    if facts and facts.network_cards > 1:
        yield Finding(
            (*key, "instance_type"),
            f"{instance_type} with {facts.network_cards} network cards in a public subnet",
            "a type with one network card, or subnet: private",
        )


@rule
def grafana(environment: Environment) -> Iterator[Finding]:
    """Grafana is opened to the clients: without any there is nobody to open it to."""
    if environment.network.grafana and not environment.network.clients:
        yield Finding(
            ("network", "grafana"), "true, without network.clients", "false, or at least one client's network"
        )


def zone_prefix(region: str) -> str | None:
    """What the ids of a region's zones begin with, `apse3` of `ap-southeast-3`; None where it is no
    region's name.
    """
    match = re.fullmatch(r"([a-z]{2})-(gov-)?(north|south|central)?(east|west|north|south)?-(\d)", region)
    if not match or not (match[3] or match[4]):
        return None
    area, gov, first, second, number = match.groups()
    return area + ("g" if gov else "") + COMPASS.get(first or "", "") + COMPASS.get(second or "", "") + number


@rule
def zone(environment: Environment) -> Iterator[Finding]:
    """The zone lies in the region. Zone ids are built from the region's name: area, initials of the
    direction, number.

    Source: AWS regions and zones, "Availability Zone IDs".
    """
    prefix = zone_prefix(environment.region)
    if prefix is None:
        yield Finding(("region",), environment.region, "a region of AWS, for example us-east-1 or ap-southeast-3")
    elif environment.network.zone.split("-")[0] != prefix:
        given = f"{environment.network.zone}, with region {environment.region}"
        yield Finding(("network", "zone"), given, f"{prefix}-az1, {prefix}-az2 and so on")


RULES = (vpc_cidr, room, clients, existing, public, grafana, zone)
