"""What an environment costs by the hour: idle, without nodes that jobs started, and with every queue at its maximum.

Counted are the resources that cost by time. Requests, traffic, logs, snapshots, backups and objects in S3 are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.review.cluster import TYPE
from settings.prices import regions

if TYPE_CHECKING:
    import boto3

    from ops.review.stacks import Stacks

HOURS = 730
"""Hours of a month, as AWS's calculator counts them."""

_API_REGION = "us-east-1"
"""The Price List API answers there for all regions of the partition aws (AWS Billing guide, endpoints)."""


@dataclass(frozen=True)
class Cost:
    """A kind of resource.

    Attributes:
        hourly: USD for one hour of one; None if the price is unknown.
        idle, full: how many there are with no dynamic node, and with every queue at its maximum.
    """

    what: str
    hourly: float | None
    idle: int = 1
    full: int = 1


class Prices:
    """On-demand prices in USD of one region: AWS's Price List API for instances if it answers, else prices.json."""

    def __init__(self, region: str, session: boto3.Session | None = None) -> None:
        self._region, self._session = region, session
        self._known: Mapping[str, Any] = regions().get(region, {})
        self._asked: dict[str, float | None] = {}

    def instance(self, kind: str) -> float | None:
        """For an hour of a Linux instance with shared tenancy."""
        if kind not in self._asked:
            listed = self._listed(kind)
            self._asked[kind] = self._known.get("instance_hour", {}).get(kind) if listed is None else listed
        return self._asked[kind]

    def hourly(self, key: str) -> float | None:
        """For an hour, by a key of prices.json."""
        found: float | None = self._known.get(key)
        return found

    def volume(self, gib: int) -> float | None:
        """For an hour of a gp3 volume with the IOPS and throughput that are included."""
        return _monthly(gib, self._known.get("gp3_gib_month"))

    def file_system(self, system: Mapping[str, Any]) -> float | None:
        """For an hour of a file system, in the form of CloudFormation's properties and of DescribeFileSystems."""
        capacity = int(system["StorageCapacity"])
        if system["FileSystemType"] == "LUSTRE":
            lustre = system["LustreConfiguration"]
            kind = f"{lustre['DeploymentType']} {lustre.get('PerUnitStorageThroughput', '')}".strip()
            return _monthly(capacity, self._known.get("lustre_gib_month", {}).get(kind))
        zfs = system["OpenZFSConfiguration"]
        known = self._known.get("openzfs", {}).get(zfs["DeploymentType"], {})
        storage = _monthly(capacity, known.get("gib_month"))
        throughput = _monthly(int(zfs["ThroughputCapacity"]), known.get("mbps_month"))
        return None if storage is None or throughput is None else storage + throughput

    def _listed(self, kind: str) -> float | None:
        # The filters are those of aws/karpenter-provider-aws, pkg/providers/pricing/pricing.go at 1d92708.
        if self._session is None or self._region.startswith(("cn-", "us-gov-")):
            return None
        wanted = {
            **{"regionCode": self._region, "instanceType": kind, "operatingSystem": "Linux", "tenancy": "Shared"},
            **{"preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand"},
        }
        filters: Any = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
        try:
            client = self._session.client("pricing", region_name=_API_REGION)
            listed = client.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
            terms = json.loads(listed[0])["terms"]["OnDemand"] if listed else {}
            units = [item for term in terms.values() for item in term["priceDimensions"].values()]
            return max((float(unit["pricePerUnit"]["USD"]) for unit in units), default=None)
        except (BotoCoreError, ClientError, KeyError, ValueError):
            return None  # The call is denied, or the API does not answer: the price comes from prices.json.


def costs(stacks: Stacks, prices: Prices) -> list[Cost]:
    """The resources of the templates that cost by the hour; equal ones are one Cost."""
    found: list[Cost] = []
    for stack in stacks.values():
        for resource in stack.resources.values():
            found += _of_resource(resource["Type"], resource.get("Properties", {}), prices)
    merged: dict[tuple[str, float | None], Cost] = {}
    for cost in found:
        key = cost.what, cost.hourly
        before = merged.get(key, Cost(*key, 0, 0))
        merged[key] = Cost(*key, before.idle + cost.idle, before.full + cost.full)
    return list(merged.values())


def _of_resource(kind: str, properties: Mapping[str, Any], prices: Prices) -> Iterator[Cost]:
    if kind == TYPE and "Configuration" in properties:
        yield from _of_cluster(properties["Configuration"], prices)
    elif kind == "AWS::FSx::FileSystem":
        yield Cost(file_system_label(properties), prices.file_system(properties))
        metadata = properties.get("LustreConfiguration", {}).get("MetadataConfiguration", {})
        if iops := metadata.get("Iops"):
            yield Cost(f"{iops} metadata IOPS of Lustre", None)
    elif kind == "AWS::RDS::DBCluster":
        capacity = properties["ServerlessV2ScalingConfiguration"]["MinCapacity"]
        hourly = prices.hourly("aurora_acu_hour")
        yield Cost(f"Aurora MySQL, {capacity} ACU at least", None if hourly is None else hourly * capacity)
    elif kind == "AWS::EC2::NatGateway":
        yield Cost("NAT gateway", prices.hourly("nat_gateway_hour"))
    elif kind == "AWS::EC2::EIP":
        yield Cost("public IPv4 address", prices.hourly("public_ipv4_hour"))
    elif kind == "AWS::EC2::VPCEndpoint" and properties.get("VpcEndpointType") == "Interface":
        zones = len(properties.get("SubnetIds", [])) or 1
        yield Cost("interface endpoint", prices.hourly("interface_endpoint_hour"), zones, zones)
    else:
        yield from _of_monitoring(kind, properties, prices)


def _of_monitoring(kind: str, properties: Mapping[str, Any], prices: Prices) -> Iterator[Cost]:
    if kind == "AWS::EC2::LaunchTemplate":
        data = properties["LaunchTemplateData"]
        yield Cost(f"monitoring host {data['InstanceType']}", prices.instance(data["InstanceType"]))
        gib = data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
        yield Cost(f"root volume gp3 {gib} GiB", prices.volume(gib))
    elif kind == "AWS::EC2::Volume":
        yield Cost(f"volume of metrics gp3 {properties['Size']} GiB", prices.volume(properties["Size"]))
    elif kind == "AWS::APS::Workspace":
        yield Cost("Amazon Managed Service for Prometheus, by samples (docs/observability.md)", None)
    elif kind == "AWS::Grafana::Workspace":
        yield Cost("Amazon Managed Grafana, by users (docs/observability.md)", None)


def _of_cluster(configuration: Mapping[str, Any], prices: Prices) -> Iterator[Cost]:
    head = configuration["HeadNode"]
    yield Cost(f"head node {head['InstanceType']}", prices.instance(head["InstanceType"]))
    yield _volume(head, prices, 1, 1)
    for pool in (configuration.get("LoginNodes") or {}).get("Pools", ()):
        count = pool["Count"]
        yield Cost(f"login node {pool['InstanceType']}", prices.instance(pool["InstanceType"]), count, count)
        yield Cost("root volume of a login node, as large as the AMI's", None, count, count)
        yield Cost("load balancer of login nodes", None)
    for queue in configuration["Scheduling"]["SlurmQueues"]:
        capacity = queue.get("CapacityType", "ONDEMAND")
        for compute in queue["ComputeResources"]:
            least, most = compute.get("MinCount", 0), compute.get("MaxCount", 10)
            types = [item["InstanceType"] for item in compute.get("Instances", ())] or [compute["InstanceType"]]
            known = [price for kind in types if (price := prices.instance(kind)) is not None]
            # The dearest type that the resource may start. Spot prices change; a capacity block is paid for in advance.
            hourly = max(known) if len(known) == len(types) and capacity == "ONDEMAND" else None
            label = "" if capacity == "ONDEMAND" else f", {capacity.lower().replace('_', ' ')}"
            yield Cost(f"compute node {' or '.join(types)}{label}", hourly, least, most)
            yield _volume(queue.get("ComputeSettings") or {}, prices, least, most)


def _volume(node: Mapping[str, Any], prices: Prices, idle: int, full: int) -> Cost:
    volume = (node.get("LocalStorage") or {}).get("RootVolume") or {}
    gib, iops, mb_s = volume.get("Size") or 0, volume.get("Iops") or 3000, volume.get("Throughput") or 125
    if (iops, mb_s) != (3000, 125):  # more than a gp3 volume's price includes
        return Cost(f"root volume gp3 {gib} GiB, {iops} IOPS, {mb_s} MiB/s", None, idle, full)
    return Cost(f"root volume gp3 {gib} GiB", prices.volume(gib), idle, full)


def file_system_label(system: Mapping[str, Any]) -> str:
    """A file system as tables name it."""
    kind = system["FileSystemType"]
    if kind == "LUSTRE":
        lustre = system["LustreConfiguration"]
        throughput = lustre.get("PerUnitStorageThroughput")
        rate = f", {throughput} MB/s per TiB" if throughput else ""
        return f"Lustre {lustre['DeploymentType']} {system['StorageCapacity']} GiB{rate}"
    zfs = system["OpenZFSConfiguration"]
    return f"OpenZFS {zfs['DeploymentType']} {system['StorageCapacity']} GiB, {zfs['ThroughputCapacity']} MB/s"


def total(found: Sequence[Cost]) -> tuple[float, float, list[str]]:
    """USD an hour idle and full, and what has no known price and is left out of both."""
    known = [(cost, cost.hourly) for cost in found if cost.hourly is not None]
    unknown = [f"{cost.full} x {cost.what}" for cost in found if cost.hourly is None]
    return sum(price * cost.idle for cost, price in known), sum(price * cost.full for cost, price in known), unknown


def dollars(hourly: float | None) -> str:
    """An amount for a table."""
    return "price unknown" if hourly is None else f"${hourly:,.2f}"


def _monthly(amount: int, price: float | None) -> float | None:
    return None if price is None else amount * price / HOURS
