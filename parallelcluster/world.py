"""A world on moto that holds what the seeds say, for as long as a check needs it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

# Read by moto when it is imported: no AMIs but ours.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"

import boto3
import botocore.session
from botocore.loaders import create_loader
from moto import mock_aws
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from pcluster.aws.aws_api import AWSApi
from pcluster.aws.common import Cache
from pcluster.constants import (
    OS_TO_IMAGE_NAME_PART_MAP,
    PCLUSTER_IMAGE_BUILD_STATUS_TAG,
    PCLUSTER_IMAGE_OS_TAG,
    PCLUSTER_VERSION_TAG,
)
from pcluster.utils import get_installed_version

from parallelcluster.gaps import ACCOUNT, OPENZFS_FILE_SYSTEM_ID, Gaps
from parallelcluster.seeds import SeedError, Seeds

# botocore's service models are megabytes of JSON: read once for all worlds.
_LOADER = create_loader()
_LUSTRE_PORTS = (("tcp", 988, 988), ("tcp", 1018, 1023))
_NFS_PORTS = tuple(
    (protocol, first, last) for protocol in ("tcp", "udp") for first, last in ((111, 111), (2049, 2049), (20001, 20003))
)


@contextmanager
def world(seeds: Seeds) -> Iterator[None]:
    """Make the world, and point boto3's default session and ParallelCluster at it.

    Raises:
        SeedError: the region has no such zone.
    """
    settings = {"AWS_DEFAULT_REGION": seeds.region, "AWS_REGION": seeds.region}
    with mock.patch.dict(os.environ, settings), mock_aws():
        session = botocore.session.Session()
        session.register_component("data_loader", _LOADER)
        boto3.setup_default_session(botocore_session=session, region_name=seeds.region)
        AWSApi.reset()
        Cache.clear_all()
        try:
            _seed(seeds)
            yield
        finally:
            AWSApi.reset()
            Cache.clear_all()
            boto3.DEFAULT_SESSION = None


def _seed(seeds: Seeds) -> None:
    ec2 = boto3.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock=seeds.vpc_cidr)["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc_id, EnableDnsHostnames={"Value": True})
    zone = _zone(ec2, seeds)
    _seed_subnets(ec2, seeds, vpc_id, zone)
    interfaces = _seed_security_groups(ec2, seeds, vpc_id)
    _seed_images(seeds)
    _seed_objects(seeds)
    session = boto3.DEFAULT_SESSION
    assert session is not None  # noqa: S101 - for the type checker; set above
    gaps = Gaps(
        seeds,
        vpc_id=vpc_id,
        subnet_id=min(seeds.subnet_ids, default=""),
        zone=zone,
        interfaces=interfaces,
        offered=_offered(ec2, zone),
    )
    gaps.register(session.events)


def _zone(ec2: Any, seeds: Seeds) -> str:  # noqa: ANN401 - boto3 client
    zones = {z["ZoneId"]: z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    zone_id = seeds.zone_id or next(iter(zones))
    if zone_id not in zones:
        raise SeedError(f"{seeds.region} has no zone {zone_id}; it has {', '.join(zones)}.")
    return str(zones[zone_id])


def _offered(ec2: Any, zone: str) -> frozenset[str]:  # noqa: ANN401 - boto3 client
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "location", "Values": [zone]}]
    )
    return frozenset(offering["InstanceType"] for page in pages for offering in page["InstanceTypeOfferings"])


def _seed_subnets(ec2: Any, seeds: Seeds, vpc_id: str, zone: str) -> None:  # noqa: ANN401 - boto3 client
    cidrs = ipaddress.ip_network(seeds.vpc_cidr).subnets(prefixlen_diff=4)
    for subnet_id, cidr in zip(sorted(seeds.subnet_ids), cidrs, strict=False):
        # moto takes no id; the configuration has one already.
        with mock.patch("moto.ec2.models.subnets.random_subnet_id", return_value=subnet_id):
            ec2.create_subnet(VpcId=vpc_id, CidrBlock=str(cidr), AvailabilityZone=zone)
        table_id = ec2.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
        ec2.associate_route_table(RouteTableId=table_id, SubnetId=subnet_id)
        if subnet_id in seeds.public_subnet_ids:
            gateway_id = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
            ec2.attach_internet_gateway(InternetGatewayId=gateway_id, VpcId=vpc_id)
            ec2.create_route(RouteTableId=table_id, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway_id)
            ec2.modify_subnet_attribute(SubnetId=subnet_id, MapPublicIpOnLaunch={"Value": True})


def _seed_security_groups(ec2: Any, seeds: Seeds, vpc_id: str) -> dict[str, str]:  # noqa: ANN401 - boto3 client
    """The groups, and a network interface for each file system that lets the nodes' groups in."""
    for group_id in sorted(seeds.node_security_group_ids | seeds.other_security_group_ids):
        with mock.patch("moto.ec2.models.security_groups.random_security_group_id", return_value=group_id):
            ec2.create_security_group(GroupName=group_id, Description="Nodes", VpcId=vpc_id)
    interfaces: dict[str, str] = {}
    openzfs_ids = {OPENZFS_FILE_SYSTEM_ID} if seeds.openzfs_volume_ids else set()
    for kind, ids, ports in (
        ("lustre", seeds.lustre_ids, _LUSTRE_PORTS),
        ("openzfs", openzfs_ids, _NFS_PORTS),
    ):
        if not ids:
            continue
        group_id = ec2.create_security_group(GroupName=kind, Description=kind, VpcId=vpc_id)["GroupId"]
        rules = [
            {
                "IpProtocol": protocol,
                "FromPort": first,
                "ToPort": last,
                "UserIdGroupPairs": [{"GroupId": group} for group in sorted(seeds.node_security_group_ids)],
            }
            for protocol, first, last in ports
        ]
        anywhere = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=[anywhere])
        if seeds.node_security_group_ids:
            ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=rules)
            ec2.authorize_security_group_egress(GroupId=group_id, IpPermissions=rules)
        for identifier in sorted(ids):
            interface = ec2.create_network_interface(SubnetId=min(seeds.subnet_ids), Groups=[group_id])
            interfaces[identifier] = interface["NetworkInterface"]["NetworkInterfaceId"]
    return interfaces


class _Image(Ami):  # type: ignore[misc]  # moto is untyped
    """An AMI with a root volume of 40 GiB; moto's have 15."""

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        return [{**device, "Ebs": {**device["Ebs"], "VolumeSize": 40}} for device in super().block_device_mappings]


def _seed_images(seeds: Seeds) -> None:
    backend = ec2_backends[ACCOUNT][seeds.region]
    version = get_installed_version()
    official = [
        (f"aws-parallelcluster-{version}-{part}-{architecture}-202601010000", architecture)
        for part in OS_TO_IMAGE_NAME_PART_MAP.values()
        for architecture in ("x86_64", "arm64")
    ]
    for number, (name, architecture) in enumerate(official):
        _add_image(backend, f"ami-{number:017x}", name=name, architecture=architecture, owner="amazon")
    tags = {
        PCLUSTER_VERSION_TAG: version,
        PCLUSTER_IMAGE_OS_TAG: seeds.image_os,
        PCLUSTER_IMAGE_BUILD_STATUS_TAG: "available",
    }
    for image_id in sorted(seeds.image_ids):
        _add_image(backend, image_id, name=f"own-{image_id}", architecture="x86_64", tags=tags)


def _add_image(
    backend: Any,  # noqa: ANN401 - moto is untyped
    image_id: str,
    *,
    name: str,
    architecture: str,
    owner: str | None = None,
    tags: dict[str, str] | None = None,
) -> None:
    backend.amis[image_id] = _Image(
        backend,
        image_id,
        name=name,
        architecture=architecture,
        owner_alias=owner,
        virtualization_type="hvm",
        root_device_name="/dev/sda1",
        root_device_type="ebs",
        image_type="machine",
        public=True,
        tags=tags,
    )


def _seed_objects(seeds: Seeds) -> None:
    for bucket in sorted(seeds.buckets):
        make_bucket(bucket, seeds.region)
    for uri in sorted(seeds.objects):
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"#!/bin/bash\n")


def make_bucket(name: str, region: str) -> None:
    """Make an empty bucket in the present world."""
    s3 = boto3.client("s3")
    if region == "us-east-1":
        s3.create_bucket(Bucket=name)
    else:
        where: Any = {"LocationConstraint": region}
        s3.create_bucket(Bucket=name, CreateBucketConfiguration=where)
