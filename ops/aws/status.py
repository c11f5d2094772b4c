"""The table that `trainyard up` ends with: read from the account and the ParallelCluster API, not from the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ops.aws.stacks import existing, stacks_of
from ops.cost.estimate import file_system_label
from ops.data.links import associations
from ops.drift.cluster import DeployedCluster, Reader, Unreadable
from ops.preflight.aws import code_of
from settings.model.storage import lustre_throughput_mb_s

if TYPE_CHECKING:
    import boto3
    from rich.console import Console
    from types_boto3_s3 import S3Client

    from settings import Environment

Rows = Iterator[tuple[str, str, str]]


def show(account: boto3.Session, environment: Environment, name: str, console: Console) -> None:
    """Print what exists of the environment, one row each. `name` is how a command line names it, with --on."""
    table = Table(box=SIMPLE_HEAD, title=f"{environment.name} ({environment.region})", title_justify="left")
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("name", overflow="fold")
    table.add_column("details", overflow="fold")
    for rows in (_resources(account, environment), _cluster(account, environment, name)):
        for row in rows:
            table.add_row(*row)
    console.print()
    console.print(table)


def _resources(account: boto3.Session, environment: Environment) -> Rows:
    ids: dict[str, list[str]] = {}
    for stack in stacks_of(account, environment):
        for resource in existing(account, stack["StackName"]):
            ids.setdefault(resource["ResourceType"], []).append(resource["PhysicalResourceId"])

    def read(kind: str, ask: Callable[[Any, list[str]], Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
        if kind not in ids:
            return []
        service: Any = account.client(kind.split("::")[1].lower())  # type: ignore[call-overload]
        try:
            return list(ask(service, ids[kind]))
        except ClientError as error:  # one that was deleted outside CloudFormation, for example
            unread.append((kind.removeprefix("AWS::"), ", ".join(ids[kind]), f"not shown: {code_of(error)}"))
            return []

    def described(kind: str, operation: str, argument: str, answer: str) -> list[dict[str, Any]]:
        return read(kind, lambda service, names: getattr(service, operation)(**{argument: names})[answer])

    unread: list[tuple[str, str, str]] = []

    zones = {
        item["AvailabilityZoneId"] for item in described("AWS::EC2::Subnet", "describe_subnets", "SubnetIds", "Subnets")
    }
    for vpc in described("AWS::EC2::VPC", "describe_vpcs", "VpcIds", "Vpcs"):
        subnets, gateways, endpoints = (
            len(ids.get(f"AWS::EC2::{kind}", [])) for kind in ("Subnet", "NatGateway", "VPCEndpoint")
        )
        details = f"{subnets} subnets in {', '.join(sorted(zones))}, {gateways} NAT gateways, {endpoints} endpoints"
        yield "network", vpc["VpcId"], f"{vpc['CidrBlock']}, {details}"
    for system in described("AWS::FSx::FileSystem", "describe_file_systems", "FileSystemIds", "FileSystems"):
        yield "file system", system["FileSystemId"], f"{_file_system(system)}, {system['Lifecycle']}"
    for volume in described("AWS::FSx::Volume", "describe_volumes", "VolumeIds", "Volumes"):
        yield "file system", volume["VolumeId"], f"OpenZFS volume {volume['Name']}, {volume['Lifecycle']}"
    for cluster in read("AWS::RDS::DBCluster", _databases):
        details = f"accounting, {cluster['Engine']} {cluster['EngineVersion']}, {cluster['Status']}"
        yield "database", cluster["DBClusterIdentifier"], details
    for link in read("AWS::FSx::DataRepositoryAssociation", associations):
        incoming, outgoing = (
            ", ".join(link.get("S3", {}).get(f"Auto{way}Policy", {}).get("Events", [])).lower() or "nothing"
            for way in ("Import", "Export")
        )
        details = f"{link['DataRepositoryPath']}, imports {incoming}; exports {outgoing}"
        yield "association", f"{link['FileSystemId']}:{link['FileSystemPath']}", details
    s3 = account.client("s3")
    for name in ids.get("AWS::S3::Bucket", ()):
        yield "bucket", f"s3://{name}", _bucket(s3, name)
    for item in described("AWS::ECR::Repository", "describe_repositories", "repositoryNames", "repositories"):
        scan = "on" if item.get("imageScanningConfiguration", {}).get("scanOnPush") else "off"
        yield "repository", item["repositoryUri"], f"tags {item['imageTagMutability'].lower()}, scan on push {scan}"
    yield from unread


def _databases(rds: Any, names: list[str]) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - a boto3 client
    for name in names:  # without it RDS answers with 100 clusters of the account
        yield from rds.describe_db_clusters(DBClusterIdentifier=name)["DBClusters"]


def _bucket(s3: S3Client, name: str) -> str:
    try:
        versioning = s3.get_bucket_versioning(Bucket=name).get("Status", "off").lower()
        page = s3.list_objects_v2(Bucket=name)
    except ClientError as error:
        return f"not shown: {code_of(error)}"
    return f"versioning {versioning}, {page['KeyCount']} objects{' or more' * page['IsTruncated']}"


def _file_system(system: Mapping[str, Any]) -> str:
    label = file_system_label(system)
    if system["FileSystemType"] != "LUSTRE":
        return label
    lustre = system["LustreConfiguration"]
    # A scratch file system names no throughput: its baseline is fixed.
    total = lustre_throughput_mb_s(system["StorageCapacity"], lustre.get("PerUnitStorageThroughput", 200))
    return f"{label} ({total:,.0f} MB/s), compression {lustre['DataCompressionType']}"


def _cluster(account: boto3.Session, environment: Environment, command_name: str) -> Rows:
    """The cluster as the ParallelCluster API describes it, with the configuration that it was created from."""
    name = environment.cluster_name
    outputs = {
        item["OutputKey"]: item["OutputValue"]
        for stack in stacks_of(account, environment)
        for item in stack.get("Outputs", [])
    }
    url, role = (outputs.get(f"ParallelClusterApi{part}", "") for part in ("InvokeUrl", "UserRole"))
    try:
        reader = Reader(DeployedCluster(name, url, role, {}, "", "", frozen=False), environment.region)
        body = reader.describe(name)
    except Unreadable as reason:
        yield "cluster", name, f"not shown: {reason}; deploy it with: trainyard up {command_name}"
        return
    if body is None:
        yield "cluster", name, f"does not exist; what to do: trainyard diff {command_name}"
        return
    status = f"{body['clusterStatus']}, ParallelCluster {body['version']}, fleet {body['computeFleetStatus']}"
    yield "cluster", name, status
    try:
        configuration = reader.configuration(name, body["clusterConfiguration"]["url"])
    except Unreadable as reason:
        yield "queues", "not shown", str(reason)
        return
    head = {
        "instanceId": "none",
        "instanceType": "",
        "state": "absent",
        "privateIpAddress": "",
        **body.get("headNode", {}),
    }
    yield "head node", head["instanceId"], ", ".join(head[key] for key in ("instanceType", "state", "privateIpAddress"))
    for queue in configuration["Scheduling"]["SlurmQueues"]:
        for compute in queue["ComputeResources"]:
            yield "queue", queue["Name"], _compute(queue, compute)


def _compute(queue: Mapping[str, Any], compute: Mapping[str, Any]) -> str:
    types = ", ".join(item["InstanceType"] for item in compute.get("Instances", [])) or compute.get("InstanceType", "")
    parts = [f"{types} x {compute.get('MinCount', 0)} to {compute.get('MaxCount', 10)}"]
    parts.append(queue.get("CapacityType", "ONDEMAND").lower())
    parts += ["EFA"] if compute.get("Efa", {}).get("Enabled") else []
    target = queue.get("CapacityReservationTarget") or compute.get("CapacityReservationTarget") or {}
    return ", ".join([*parts, *map(str, target.values())])
