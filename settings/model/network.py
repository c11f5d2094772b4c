"""The network of an environment: a new VPC in one availability zone, or an existing VPC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import LogDays, Part

Cidr = Annotated[str, StringConstraints(pattern=patterns.CIDR)]
SubnetId = Annotated[str, StringConstraints(pattern=patterns.SUBNET)]


class ExistingNetwork(Part):
    """An existing VPC. Trainyard only adds security groups to it."""

    vpc_id: Annotated[str, StringConstraints(pattern=patterns.VPC)] = Field(description="Id of the VPC.")
    vpc_cidr: Cidr = Field(description="CIDR of the VPC. It is needed because synthesis does not query the account.")
    private_subnet_id: SubnetId = Field(
        description="Subnet of compute nodes, file systems and the head node. It must not assign public addresses."
    )
    public_subnet_id: SubnetId | None = Field(
        default=None, description="Subnet of a public head node or public login nodes."
    )


class Network(Part):
    """VPC, subnets and who may connect."""

    cidr: Cidr = Field(default="10.0.0.0/16", description="CIDR of the new VPC; /16 to /24.")
    zone: Annotated[str, StringConstraints(pattern=patterns.ZONE_ID)] = Field(
        description="Id of the availability zone, for example use1-az4. (Zone names differ between accounts.)"
    )
    existing: ExistingNetwork | None = Field(default=None, description="Use this VPC instead of creating one.")
    egress: Literal["nat", "endpoints-only"] = Field(
        default="nat",
        description="How private nodes reach the internet: `nat` through a NAT gateway, `endpoints-only` not at all,"
        " only AWS services through VPC endpoints.",
    )
    clients: tuple[Cidr, ...] = Field(
        default=(),
        description="CIDRs that may connect with SSH, and to Grafana if it is enabled. Default: none; connect through"
        " SSM.",
    )
    grafana: bool = Field(default=False, description="Open port 443 of the head node to `clients` for Grafana.")
    flow_log_days: LogDays = Field(default=30, description="Days that VPC flow logs are kept in CloudWatch Logs.")
