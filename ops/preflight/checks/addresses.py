"""Addresses for everything that takes one, and an existing network as the file says it is.

A node takes one address for each of its network interfaces that is not `efa-only`. ParallelCluster 3.16.1
(`templates/queues_stack.py`, `add_network_interfaces`) gives a node with EFA one interface with an address, on the
first card, and `efa-only` ones beside it and on every other card: a p5.48xlarge has 33, one of which has an address.
Without EFA each card has an interface with an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from settings.model.network import ExistingNetwork
from settings.rules.network import address_needs
from trainyard.addresses import split

CHECK = "addresses"


def check(question: Question) -> Iterator[Line]:
    """The private subnet's room: by its CIDR where it is made, by what is free where it stands already."""
    network = question.environment.network
    if network.existing:
        yield from _existing(question, network.existing)
        return
    block = split(network.cidr).private
    room = IPv4Network(block).num_addresses
    needs = address_needs(question.environment)
    total = sum(needs.values())
    yield Line(
        CHECK,
        f"private subnet {block}",
        "the environment file",
        f"{room} addresses",
        f"{total}: {_told(needs)}",
        Verdict.OK if room >= total else Verdict.FAULT,
        "" if room >= total else "set network.cidr to a larger block",
    )


def _existing(question: Question, existing: ExistingNetwork) -> Iterator[Line]:
    zone = question.environment.network.zone
    subnets = {"private": existing.private_subnet_id}
    if existing.public_subnet_id:
        subnets["public"] = existing.public_subnet_id
    for kind, subnet_id in subnets.items():
        key = f"network.existing.{kind}_subnet_id"
        try:
            [found] = question.aws.call("ec2", "describe_subnets", SubnetIds=[subnet_id])["Subnets"]
        except ClientError as error:
            if not code_of(error).startswith("InvalidSubnetI"):
                raise
            yield Line(
                CHECK,
                f"{kind} subnet {subnet_id}",
                "ec2:DescribeSubnets",
                "no such subnet",
                f"a subnet of {existing.vpc_id}",
                Verdict.FAULT,
                f"correct {key}",
            )
            continue
        rows = [
            ("VPC", str(found["VpcId"]), existing.vpc_id),
            ("zone", str(found.get("AvailabilityZoneId", "?")), zone),
        ]
        if kind == "private":
            gives = "gives public addresses" if found.get("MapPublicIpOnLaunch") else "gives no public addresses"
            rows.append(("public addresses", gives, "gives no public addresses"))
        for what, is_, wanted in rows:
            yield Line(
                CHECK,
                f"{kind} subnet {subnet_id}: {what}",
                "ec2:DescribeSubnets",
                is_,
                wanted,
                Verdict.OK if is_ == wanted else Verdict.FAULT,
                "" if is_ == wanted else f"correct {key}, or the network part of the file",
            )
        if kind == "private":
            yield _free(question, subnet_id, int(found["AvailableIpAddressCount"]))


def _free(question: Question, subnet_id: str, free: int) -> Line:
    # Nothing is made in an existing network but security groups, and what AWS keeps is not counted as free.
    needs = {what: count for what, count in address_needs(question.environment).items() if count}
    ours = question.standing.ids("AWS::FSx::FileSystem")
    held = sum(question.is_ours(item) and item.get("SubnetId") == subnet_id for item in question.instances)
    held += sum(len(s.get("NetworkInterfaceIds", [])) for s in question.file_systems if s["FileSystemId"] in ours)
    total = sum(needs.values())
    return Line(
        CHECK,
        f"private subnet {subnet_id}: addresses",
        "ec2:DescribeSubnets",
        f"{free} free" + (f", {held} held by this environment" if held else ""),
        f"{total}: {_told(needs)}",
        Verdict.OK if free + held >= total else Verdict.FAULT,
        "" if free + held >= total else "take a larger subnet, or fewer nodes",
    )


def _told(needs: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in needs.items() if count)
