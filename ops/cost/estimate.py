"""What an environment costs, by resource: an hour idle, an hour at full size, and storage a month.

The templates say what there is. Requests, traffic, logs, snapshots, backups and objects in S3 are charged by use: they
are named, and in no sum. So is what has no known price, and every resource of a type that this module does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ops.cost.prices import HOURS, Prices
from ops.review.cluster import TYPE

if TYPE_CHECKING:
    from ops.review.stacks import Stacks

BY_USE = {
    **{
        "AWS::S3::Bucket": "S3",
        "AWS::Lambda::Function": "Lambda",
        "AWS::StepFunctions::StateMachine": "Step Functions",
    },
    **{"AWS::Logs::LogGroup": "CloudWatch Logs", "AWS::ECR::Repository": "ECR", "AWS::CodeBuild::Project": "CodeBuild"},
    **{"AWS::SNS::Topic": "SNS", "AWS::EC2::FlowLog": "VPC flow logs", "AWS::Scheduler::Schedule": "EventBridge"},
    **{"AWS::APS::Workspace": "Amazon Managed Service for Prometheus", "AWS::SNS::Subscription": "SNS"},
    **{"AWS::Grafana::Workspace": "Amazon Managed Grafana", "AWS::Events::Rule": "EventBridge"},
    **{"AWS::CloudFormation::Stack": "the ParallelCluster API", TYPE: "ParallelCluster's own stack"},
}
"""Types whose charge depends on use, and the service that charges."""
FREE = (
    *("AWS::IAM::", "AWS::SSM::", "AWS::CDK::", "Custom::", "AWS::CloudFormation::", "AWS::Lambda::", "AWS::Events::"),
    *("AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::Route", "AWS::EC2::SecurityGroup", "AWS::EC2::InternetGateway"),
    *("AWS::FSx::DataRepositoryAssociation", "AWS::FSx::Volume", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy"),
    *("AWS::RDS::DBSubnetGroup", "AWS::RDS::DBClusterParameterGroup", "AWS::SecretsManager::RotationSchedule"),
    *("AWS::AutoScaling::", "AWS::APS::", "AWS::Chatbot::", "AWS::Logs::"),
)
"""Beginnings of the types that are free, or charged as another resource. A longer name above comes first."""
_FIXED = {
    "AWS::KMS::Key": ("KMS key", "kms_key_month"),
    "AWS::SecretsManager::Secret": ("secret", "secret_month"),
    "AWS::CloudWatch::Alarm": ("CloudWatch alarm", "alarm_month"),
    "AWS::CloudWatch::Dashboard": ("CloudWatch dashboard", "dashboard_month"),
    "AWS::EC2::NatGateway": ("NAT gateway", "nat_gateway_hour"),
    "AWS::EC2::EIP": ("public IPv4 address", "public_ipv4_hour"),
}


_SMALL = 0.1


class Category(StrEnum):
    COMPUTE = "compute"
    NETWORK = "network"
    MONITORING = "monitoring"
    DATABASE = "database"
    STORAGE = "storage"
    OTHER = "other"


@dataclass(frozen=True)
class Item:
    """A kind of resource.

    Attributes:
        price: USD of one, an hour; of storage, a month. None if it is unknown.
        idle, full: how many are charged with no dynamic node, and with every queue at its maximum.
    """

    category: Category
    what: str
    price: float | None
    idle: float = 1
    full: float = 1

    @property
    def is_storage(self) -> bool:
        return self.category is Category.STORAGE


@dataclass(frozen=True)
class Estimate:
    """The price of an environment.

    Attributes:
        by_use: how many resources each service charges by use.
    """

    items: tuple[Item, ...] = ()
    by_use: Mapping[str, int] = field(default_factory=dict)

    @property
    def idle(self) -> float:
        """USD an hour of what runs without jobs, without storage."""
        return sum(item.price * item.idle for item in self.items if item.price is not None and not item.is_storage)

    @property
    def full(self) -> float:
        """USD an hour with every queue at its maximum, without storage."""
        return sum(item.price * item.full for item in self.items if item.price is not None and not item.is_storage)

    @property
    def storage(self) -> float:
        """USD a month."""
        return sum(item.price * item.full for item in self.items if item.price is not None and item.is_storage)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What has no known price and is in no sum."""
        return tuple(f"{item.full:g} x {item.what}" for item in self.items if item.price is None)

    @property
    def summary(self) -> str:
        """The three sums in one sentence; each is a least amount where a price in it is unknown."""
        hours = [item for item in self.items if not item.is_storage]
        storage = [item for item in self.items if item.is_storage]
        month = _at_least(self.idle_month, self.items)
        return (
            f"{_at_least(self.idle, hours)} an hour idle, {_at_least(self.full, hours)} an hour at full size, "
            f"{_at_least(self.storage, storage)} a month for storage ({month} for a month without jobs)"
        )

    @property
    def idle_month(self) -> float:
        """USD of a month of 730 hours without jobs, with storage."""
        return self.idle * HOURS + self.storage

    def as_data(self) -> dict[str, object]:
        """For JSON."""
        return {
            "idle_usd_per_hour": self.idle,
            "full_usd_per_hour": self.full,
            "storage_usd_per_month": self.storage,
            "items": [vars(item) for item in self.items],
            "unknown": self.unknown,
            "by_use": dict(self.by_use),
        }


def estimate(stacks: Stacks, prices: Prices) -> Estimate:
    """The price of the templates' resources; equal ones are one item."""
    found: list[Item] = []
    by_use: Counter[str] = Counter()
    for stack in stacks.values():
        for resource in stack.resources.values():
            kind, properties = resource["Type"], resource.get("Properties", {})
            if kind in BY_USE:
                by_use[BY_USE[kind]] += 1
            found += _of_resource(kind, properties, prices)
    return Estimate(tuple(_merged(found)), dict(sorted(by_use.items())))


def _merged(found: Sequence[Item]) -> Iterator[Item]:
    merged: dict[tuple[Category, str, float | None], Item] = {}
    for item in found:
        key = item.category, item.what, item.price
        before = merged.get(key, Item(*key, 0, 0))
        merged[key] = Item(*key, before.idle + item.idle, before.full + item.full)
    order = list(Category)
    yield from sorted(merged.values(), key=lambda item: order.index(item.category))


def _of_resource(kind: str, properties: Mapping[str, Any], prices: Prices) -> Iterator[Item]:
    if kind == TYPE:
        yield from _of_cluster(properties.get("Configuration", {}), prices)
    elif kind == "AWS::FSx::FileSystem":
        yield Item(Category.STORAGE, file_system_label(properties), prices.file_system(properties))
        metadata = properties.get("LustreConfiguration", {}).get("MetadataConfiguration", {})
        if iops := metadata.get("Iops"):
            yield Item(Category.STORAGE, f"{iops} metadata IOPS of Lustre", None)
    elif kind == "AWS::EC2::VPCEndpoint" and properties.get("VpcEndpointType") == "Interface":
        zones = len(properties.get("SubnetIds", [])) or 1
        price = prices.hourly("interface_endpoint_hour")
        yield Item(Category.NETWORK, "interface endpoint", price, zones, zones)
    elif kind == "AWS::EC2::LaunchTemplate":
        data = properties["LaunchTemplateData"]
        label = f"monitoring host {data['InstanceType']}"
        yield Item(Category.MONITORING, label, prices.instance(data["InstanceType"]))
        gib = data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
        yield Item(Category.STORAGE, f"root volume of the monitoring host, gp3 {gib} GiB", prices.volume(gib))
    elif kind == "AWS::EC2::Volume":
        gib = properties["Size"]
        yield Item(Category.STORAGE, f"volume of metrics gp3 {gib} GiB", prices.volume(gib))
    elif kind == "AWS::RDS::DBCluster":
        yield from _of_database(properties, prices)
    elif kind == "AWS::RDS::DBInstance" and properties.get("DBInstanceClass") == "db.serverless":
        return  # its capacity is the cluster's
    elif kind in _FIXED:
        what, key = _FIXED[kind]
        category = Category.NETWORK if key.endswith("_hour") else Category.OTHER
        yield Item(category, what, prices.hourly(key))
    elif kind not in BY_USE and not kind.startswith(FREE):
        yield Item(Category.OTHER, f"{kind}, a type without a price in this estimate", None)


def _of_database(properties: Mapping[str, Any], prices: Prices) -> Iterator[Item]:
    scaling = properties.get("ServerlessV2ScalingConfiguration")
    if not scaling:
        yield Item(Category.DATABASE, f"database {properties.get('Engine', '')}, not serverless", None)
        return
    least, most = float(scaling["MinCapacity"]), float(scaling["MaxCapacity"])
    yield Item(Category.DATABASE, "Aurora capacity unit (ACU)", prices.hourly("aurora_acu_hour"), least, most)
    yield Item(Category.DATABASE, "storage and I/O of Aurora, by use", None)


def _of_cluster(configuration: Mapping[str, Any], prices: Prices) -> Iterator[Item]:
    if not configuration:
        return
    head = configuration["HeadNode"]
    yield Item(Category.COMPUTE, f"head node {head['InstanceType']}", prices.instance(head["InstanceType"]))
    yield _root_volume("the head node", head, prices, 1, 1)
    for pool in (configuration.get("LoginNodes") or {}).get("Pools", ()):
        kind, count = pool["InstanceType"], pool["Count"]
        yield Item(Category.COMPUTE, f"login node {kind}", prices.instance(kind), count, count)
        yield Item(Category.COMPUTE, "root volume of a login node, as large as the AMI's", None, count, count)
        yield Item(Category.NETWORK, "load balancer of login nodes", prices.hourly("load_balancer_hour"))
    for queue in configuration["Scheduling"]["SlurmQueues"]:
        for compute in queue["ComputeResources"]:
            yield from _of_nodes(queue, compute, prices)


def _of_nodes(queue: Mapping[str, Any], compute: Mapping[str, Any], prices: Prices) -> Iterator[Item]:
    capacity = queue.get("CapacityType", "ONDEMAND")
    least, most = compute.get("MinCount", 0), compute.get("MaxCount", 10)
    types = [item["InstanceType"] for item in compute.get("Instances", ())] or [compute["InstanceType"]]
    known = [price for kind in types if (price := prices.instance(kind, capacity)) is not None]
    hourly = max(known) if len(known) == len(types) else None  # the dearest type that the resource may start
    label = "" if capacity == "ONDEMAND" else f", {capacity.lower().replace('_', ' ')}"
    # A reservation or a capacity block is charged whether its instances run or not.
    reserved = bool(compute.get("CapacityReservationTarget") or queue.get("CapacityReservationTarget"))
    label += ", reserved: charged while unused" if reserved else ""
    idle = most if reserved else least
    yield Item(Category.COMPUTE, f"compute node {' or '.join(types)}{label}", hourly, idle, most)
    yield _root_volume("a compute node", queue.get("ComputeSettings") or {}, prices, least, most)


def _root_volume(of: str, node: Mapping[str, Any], prices: Prices, idle: int, full: int) -> Item:
    """A node's own disk, which exists as long as the node: by the hour, and not storage that stays."""
    volume = (node.get("LocalStorage") or {}).get("RootVolume") or {}
    gib, iops, mb_s = volume.get("Size") or 0, volume.get("Iops") or 3000, volume.get("Throughput") or 125
    label = f"root volume of {of}, gp3 {gib} GiB"
    if (iops, mb_s) != (3000, 125):  # more than a gp3 volume's price includes
        return Item(Category.COMPUTE, f"{label}, {iops} IOPS, {mb_s} MiB/s", None, idle, full)
    monthly = prices.volume(gib)
    return Item(Category.COMPUTE, label, None if monthly is None else monthly / HOURS, idle, full)


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


def _at_least(amount: float, items: Sequence[Item]) -> str:
    unknown = any(item.price is None for item in items)
    return f"{'at least ' if unknown and amount else ''}{'unknown' if unknown and not amount else dollars(amount)}"


def dollars(amount: float | None) -> str:
    """An amount for a table; a small one, such as a key's price of an hour, with two more digits."""
    if amount is None:
        return "price unknown"
    return f"${amount:,.4f}" if 0 < amount < _SMALL else f"${amount:,.2f}"
