"""Free addresses in the private subnet, and whether an existing network is as the file describes it.

A node uses one address for each network interface that is not `efa-only`. With EFA, ParallelCluster 3.16.1
(`templates/queues_stack.py`, `add_network_interfaces`) creates one interface with an address, on the first card, and
`efa-only` ones on all cards: of the 33 interfaces of a p5.48xlarge one has an address. Without EFA each card has an
interface with an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from botocore.exceptions import ClientError

from ops.preflight.aws import code_of
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, judged
from settings.model.network import ExistingNetwork
from settings.rules.network import address_needs
from trainyard.addresses import split

_CALL = "ec2:DescribeSubnets"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """A new subnet by its CIDR, an existing one by its free addresses."""
    network, needs = context.environment.network, address_needs(context.environment)
    total = sum(needs.values())
    wanted = f"{total}: {', '.join(f'{count} {what}' for what, count in needs.items() if count)}"
    if network.existing:
        yield from _existing(context, network.existing, total, wanted)
        return
    block, _ = split(network.cidr)
    room = IPv4Network(block).num_addresses
    todo = "set network.cidr to a larger block"
    subject, found = f"private subnet {block}", f"{room} addresses"
    yield judged(subject, "the environment file", found, wanted, ok=room >= total, todo=todo)


def _existing(context: CheckContext, existing: ExistingNetwork, total: int, needs: str) -> Iterator[CheckResult]:
    for kind, subnet_id in (("private", existing.private_subnet_id), ("public", existing.public_subnet_id)):
        if subnet_id is None:
            continue
        subject, key = f"{kind} subnet {subnet_id}", f"network.existing.{kind}_subnet_id"
        try:
            [found] = context.aws.call("ec2", "describe_subnets", SubnetIds=[subnet_id])["Subnets"]
        except ClientError as error:
            if not code_of(error).startswith("InvalidSubnetI"):
                raise
            wanted = f"a subnet of {existing.vpc_id}"
            yield judged(subject, _CALL, "no such subnet", wanted, ok=False, todo=f"correct {key}")
            continue
        rows = [
            ("VPC", str(found["VpcId"]), existing.vpc_id),
            ("zone", str(found.get("AvailabilityZoneId", "?")), context.environment.network.zone),
        ]
        login = context.environment.cluster.login_nodes
        public_login = login is not None and login.subnet == "public"
        if kind == "private" or public_login:
            texts = ("assigns no public addresses", "assigns public addresses")
            rows.append(("public addresses", texts[bool(found.get("MapPublicIpOnLaunch"))], texts[kind == "public"]))
        for what, actual, wanted in rows:
            todo = f"correct {key}, or the network part of the file"
            yield judged(f"{subject}: {what}", _CALL, actual, wanted, ok=actual == wanted, todo=todo)
        if kind == "private":
            free, used = int(found["AvailableIpAddressCount"]), _used(context, subnet_id)
            shown = f"{free} free" + (f", {used} used by this environment" if used else "")
            todo = "use a larger subnet, or fewer nodes"
            yield judged(f"{subject}: addresses", _CALL, shown, needs, ok=free + used >= total, todo=todo)


def _used(context: CheckContext, subnet_id: str) -> int:
    ours = context.ids("AWS::FSx::FileSystem")
    nodes = [item for item in context.instances if context.is_ours(item) and item.get("SubnetId") == subnet_id]
    systems = [system for system in context.file_systems if system["FileSystemId"] in ours]
    return len(nodes) + sum(len(system.get("NetworkInterfaceIds", [])) for system in systems)
