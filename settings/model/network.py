"""The network of an environment: a new VPC in one availability zone, or an existing VPC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.model.base import LogDays, Part, resource_id, text

Cidr = Annotated[str, text(r"\d{1,3}(\.\d{1,3}){3}/\d{1,2}", "an IPv4 network, for example 10.0.0.0/16")]
SubnetId = Annotated[str, resource_id("a subnet id", "subnet")]
VpcId = Annotated[str, resource_id("a VPC id", "vpc")]
ZoneId = Annotated[str, text(r"[a-z]+\d-az\d", "a zone id (not a zone name), for example use1-az4")]


class ExistingNetwork(Part):
    """An existing VPC. Trainyard only adds security groups to it."""

    vpc_id: VpcId = Field(description="Id of the VPC.")
    vpc_cidr: Cidr = Field(description="CIDR of the VPC. It is needed because synthesis does not query the account.")
    private_subnet_id: SubnetId = Field(
        description="Subnet of compute nodes, file systems and the head node. It must not assign public addresses."
    )
    public_subnet_id: SubnetId | None = Field(None, description="Subnet of a public head node or public login nodes.")


class Network(Part):
    """VPC, subnets and who may connect."""

    cidr: Cidr = Field("10.0.0.0/16", description="CIDR of the new VPC; /16 to /24.")
    zone: ZoneId = Field(
        description="Id of the availability zone, for example use1-az4. (Zone names differ between accounts.)"
    )
    existing: ExistingNetwork | None = Field(None, description="Use this VPC instead of creating one.")
    egress: Literal["nat", "endpoints-only"] = Field(
        "nat",
        description="How private nodes reach the internet: `nat` through a NAT gateway, `endpoints-only` not at all,"
        " only AWS services through VPC endpoints, whose policies allow no resources of other accounts.",
    )
    clients: tuple[Cidr, ...] = Field(
        (), description="CIDRs that may connect with SSH. Default: none; connect through SSM."
    )
    flow_log_days: LogDays = Field(30, description="Days that VPC flow logs are kept in CloudWatch Logs.")
