"""The table that `make up` ends with: read from the world and from the ParallelCluster API, never from the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from local.commands import cluster_view
from local.commands.leftovers import stacks_of
from local.commands.session import aws
from settings.model.storage import lustre_throughput_mb_s

if TYPE_CHECKING:
    import boto3
    from rich.console import Console

    from local.commands.session import Session
    from local.emulator.launch import Emulator


def show(session: Session, world: Emulator, console: Console) -> None:
    """Print what stands for the environment, one row a thing."""
    account = aws(world)
    environment = session.environment
    resources = _resources(account, session)
    table = Table(box=SIMPLE_HEAD, title=f"{environment.name} ({environment.region})", title_justify="left")
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("name", overflow="fold")
    table.add_column("details", overflow="fold")
    for row in _network(account, resources):
        table.add_row("network", *row)
    for row in _file_systems(account, resources):
        table.add_row("file system", *row)
    for row in _associations(account, resources):
        table.add_row("association", *row)
    for row in _buckets(account, resources):
        table.add_row("bucket", *row)
    for row in _repositories(account, resources):
        table.add_row("repository", *row)
    cluster = cluster_view.read(session, world)
    for line in _cluster(cluster):
        table.add_row(*line)
    console.print()
    console.print(table)
    for step in _next_steps(session):
        console.print(step, highlight=False)


Resources = Mapping[str, Sequence[str]]


def _resources(account: boto3.Session, session: Session) -> Resources:
    client = account.client("cloudformation")
    found: dict[str, list[str]] = {}
    for stack in stacks_of(account, session.environment):
        for page in client.get_paginator("list_stack_resources").paginate(StackName=stack["StackName"]):
            for resource in page["StackResourceSummaries"]:
                found.setdefault(resource["ResourceType"], []).append(resource.get("PhysicalResourceId", ""))
    return found


def _network(account: boto3.Session, resources: Resources) -> Iterator[tuple[str, str]]:
    client = account.client("ec2")
    for vpc in resources.get("AWS::EC2::VPC", ()):
        cidr = client.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"]
        subnets = client.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"]
        gateways = client.describe_nat_gateways(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["NatGateways"]
        endpoints = client.describe_vpc_endpoints(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["VpcEndpoints"]
        zones = ", ".join(sorted({subnet["AvailabilityZoneId"] for subnet in subnets}))
        yield (
            vpc,
            f"{cidr}, {len(subnets)} subnets in {zones}, {len(gateways)} NAT gateways, {len(endpoints)} endpoints",
        )


def _file_systems(account: boto3.Session, resources: Resources) -> Iterator[tuple[str, str]]:
    client = account.client("fsx")
    ids = list(resources.get("AWS::FSx::FileSystem", ()))
    for system in client.describe_file_systems(FileSystemIds=ids)["FileSystems"] if ids else ():
        capacity = system["StorageCapacity"]
        if system["FileSystemType"] == "LUSTRE":
            lustre = system["LustreConfiguration"]
            per_tib = lustre["PerUnitStorageThroughput"]
            rate = lustre_throughput_mb_s(capacity, per_tib)
            details = (
                f"Lustre {lustre['DeploymentType']}, {capacity} GiB, {per_tib} MB/s per TiB ({rate:,.0f} MB/s), "
                f"compression {lustre['DataCompressionType']}"
            )
        else:
            throughput = system["OpenZFSConfiguration"]["ThroughputCapacity"]
            details = f"{system['FileSystemType']} {capacity} GiB, {throughput} MB/s"
        yield system["FileSystemId"], f"{details}, {system['Lifecycle']}"
    volumes = list(resources.get("AWS::FSx::Volume", ()))
    for volume in client.describe_volumes(VolumeIds=volumes)["Volumes"] if volumes else ():
        yield volume["VolumeId"], f"OpenZFS volume {volume['Name']}, {volume['Lifecycle']}"


def _associations(account: boto3.Session, resources: Resources) -> Iterator[tuple[str, str]]:
    ids = list(resources.get("AWS::FSx::DataRepositoryAssociation", ()))
    if not ids:
        return
    for link in account.client("fsx").describe_data_repository_associations(AssociationIds=ids)["Associations"]:
        s3 = link.get("S3", {})
        incoming = ", ".join(event.lower() for event in s3.get("AutoImportPolicy", {}).get("Events", [])) or "nothing"
        outgoing = ", ".join(event.lower() for event in s3.get("AutoExportPolicy", {}).get("Events", [])) or "nothing"
        name = f"{link['FileSystemId']}:{link['FileSystemPath']}"
        yield name, f"{link['DataRepositoryPath']}, imports {incoming}; exports {outgoing}"


def _buckets(account: boto3.Session, resources: Resources) -> Iterator[tuple[str, str]]:
    client = account.client("s3")
    for name in resources.get("AWS::S3::Bucket", ()):
        versioning = client.get_bucket_versioning(Bucket=name).get("Status", "off").lower()
        count = client.list_objects_v2(Bucket=name).get("KeyCount", 0)
        yield f"s3://{name}", f"versioning {versioning}, {count} objects"


def _repositories(account: boto3.Session, resources: Resources) -> Iterator[tuple[str, str]]:
    names = list(resources.get("AWS::ECR::Repository", ()))
    if not names:
        return
    for repository in account.client("ecr").describe_repositories(repositoryNames=names)["repositories"]:
        scan = repository.get("imageScanningConfiguration", {}).get("scanOnPush", False)
        details = f"tags {repository.get('imageTagMutability', '').lower()}, scan on push {'on' if scan else 'off'}"
        yield repository["repositoryUri"], details


def _cluster(cluster: cluster_view.ClusterView) -> Iterator[tuple[str, str, str]]:
    yield "cluster", cluster.name, f"{cluster.status}, ParallelCluster {cluster.version}, fleet {cluster.fleet}"
    yield "head node", cluster.head_id, f"{cluster.head_type}, {cluster.head_state}, {cluster.head_address}"
    for queue in cluster.configuration["Scheduling"]["SlurmQueues"]:
        for compute in queue["ComputeResources"]:
            yield "queue", queue["Name"], _compute(queue, compute)


def _compute(queue: Mapping[str, Any], compute: Mapping[str, Any]) -> str:
    types = ", ".join(item["InstanceType"] for item in compute.get("Instances", [])) or compute.get("InstanceType", "")
    parts = [f"{types} x {compute.get('MinCount', 0)} to {compute.get('MaxCount', 10)}"]
    parts.append(queue.get("CapacityType", "ONDEMAND").lower())
    if compute.get("Efa", {}).get("Enabled"):
        parts.append("EFA")
    target = queue.get("CapacityReservationTarget") or compute.get("CapacityReservationTarget") or {}
    parts += list(target.values())
    return ", ".join(str(part) for part in parts)


def _next_steps(session: Session) -> Iterator[str]:
    name = session.file.stem
    yield "[bold]Next[/bold]"
    yield f"  edit {session.file.name}, then: make diff ENV={name}, make up ENV={name}"
    yield f"  remove it all:   make down ENV={name}"
    yield f"  deploy it to AWS: node_modules/.bin/cdk deploy --all -c env={name}  (with the account's credentials)"
    yield f"  connect there:   the command in the output Connect of the stack {session.environment.name}-cluster"
