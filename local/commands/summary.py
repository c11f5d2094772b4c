"""The table that `trainyard up` ends with: read from the emulator and the ParallelCluster API, not from the file."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from rich.box import SIMPLE_HEAD
from rich.table import Table

from local.commands.leftovers import stacks_of
from local.commands.session import Session, aws
from ops.problem import Problem
from settings.model.storage import lustre_throughput_mb_s

if TYPE_CHECKING:
    import boto3
    from rich.console import Console

    from local.emulator.launch import Emulator

Resources = Mapping[str, Sequence[str]]
Ask = Callable[[str], dict[str, Any]]

_TIMEOUT_S = 60


def show(session: Session, emulator: Emulator, console: Console) -> None:
    """Print what exists of the environment, one row each.

    Raises:
        Problem: there is no cluster.
    """
    account = aws(emulator)
    environment = session.environment
    resources = _resources(account, session)
    table = Table(box=SIMPLE_HEAD, title=f"{environment.name} ({environment.region})", title_justify="left")
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("name", overflow="fold")
    table.add_column("details", overflow="fold")
    for kind, rows in (
        ("network", _network(account, resources)),
        ("file system", _file_systems(account, resources)),
        ("association", _associations(account, resources)),
        ("bucket", _buckets(account, resources)),
        ("repository", _repositories(account, resources)),
    ):
        for row in rows:
            table.add_row(kind, *row)
    for line in _cluster(session, account):
        table.add_row(*line)
    console.print()
    console.print(table)
    for step in _next_steps(session):
        console.print(step, highlight=False)


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
                f"Lustre {lustre['DeploymentType']}, {capacity} GiB, {per_tib} MB/s per TiB "
                f"({rate:,.0f} MB/s), compression {lustre['DataCompressionType']}"
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
    client = account.client("fsx")
    for link in client.describe_data_repository_associations(AssociationIds=ids)["Associations"] if ids else ():
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
    client = account.client("ecr")
    for repository in client.describe_repositories(repositoryNames=names)["repositories"] if names else ():
        scan = repository.get("imageScanningConfiguration", {}).get("scanOnPush", False)
        details = f"tags {repository.get('imageTagMutability', '').lower()}, scan on push {'on' if scan else 'off'}"
        yield repository["repositoryUri"], details


def _cluster(session: Session, account: boto3.Session) -> Iterator[tuple[str, str, str]]:
    """The cluster as the ParallelCluster API describes it, with the configuration that it was created from."""
    name = session.environment.cluster_name
    ask = _api(session, account)
    body = ask(f"/v3/clusters/{name}")
    fleet = ask(f"/v3/clusters/{name}/computefleet")["status"]
    yield "cluster", name, f"{body['clusterStatus']}, ParallelCluster {body['version']}, fleet {fleet}"
    head = {"instanceType": "", "state": "absent", "privateIpAddress": "", **body.get("headNode", {})}
    details = f"{head['instanceType']}, {head['state']}, {head['privateIpAddress']}"
    yield "head node", head.get("instanceId", "none"), details
    with urllib.request.urlopen(body["clusterConfiguration"]["url"], timeout=_TIMEOUT_S) as answer:  # noqa: S310
        configuration = yaml.safe_load(answer)
    for queue in configuration["Scheduling"]["SlurmQueues"]:
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


def _api(session: Session, account: boto3.Session) -> Ask:
    url, role = _api_of(session, account)
    keys = account.client("sts").assume_role(RoleArn=role, RoleSessionName="trainyard-local")["Credentials"]
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    region = session.environment.region

    def ask(path: str) -> dict[str, Any]:
        request = AWSRequest(method="GET", url=f"{url}{path}?region={region}")
        SigV4Auth(credentials, "execute-api", region).add_auth(request)
        prepared = urllib.request.Request(str(request.url), headers=dict(request.headers))  # noqa: S310
        try:
            with urllib.request.urlopen(prepared, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                body: dict[str, Any] = json.load(answer)
                return body
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404:
                raise Problem(
                    f"There is no cluster {session.environment.cluster_name!r} in the emulated AWS. "
                    f"Create it with: trainyard up {session.name}"
                ) from refusal
            text = refusal.read().decode(errors="replace")[:500]
            raise Problem(f"The ParallelCluster API answered HTTP {refusal.code} to GET {path}: {text}") from refusal

    return ask


def _api_of(session: Session, account: boto3.Session) -> tuple[str, str]:
    """Invoke URL and user role, from the outputs of the API's nested stack."""
    for page in account.client("cloudformation").get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            outputs = {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
            if "ParallelClusterApiInvokeUrl" in outputs:
                return outputs["ParallelClusterApiInvokeUrl"], outputs["ParallelClusterApiUserRole"]
    raise Problem(f"No ParallelCluster API is deployed. Deploy it with: trainyard up {session.name}")


def _next_steps(session: Session) -> Iterator[str]:
    name = session.name
    yield "[bold]Next[/bold]"
    yield f"  edit {session.file.name}, then: trainyard diff {name}, trainyard up {name}"
    yield f"  remove it all:    trainyard down {name}"
    yield f"  deploy it to AWS: node_modules/.bin/cdk deploy --all -c env={name}  (with the account's credentials)"
    yield f"  connect there:    the command in the output Connect of the stack {session.environment.name}-cluster"
