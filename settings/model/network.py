"""The network of an environment: a new VPC in the zone of the capacity, or an existing one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import Part

Cidr = Annotated[str, StringConstraints(pattern=patterns.CIDR)]
ZoneId = Annotated[str, StringConstraints(pattern=patterns.ZONE_ID)]


class ExistingNetwork(Part):
    """A VPC that stands already. Trainyard adds security groups to it and nothing else."""

    vpc_id: Annotated[str, StringConstraints(pattern=patterns.VPC)] = Field(description="The VPC.")
    vpc_cidr: Cidr = Field(description="The VPC's CIDR: synthesis makes no look-up in an account.")
    private_subnet_id: Annotated[str, StringConstraints(pattern=patterns.SUBNET)] = Field(
        description="For compute nodes, file systems and the head node. It must give no public addresses."
    )
    public_subnet_id: Annotated[str, StringConstraints(pattern=patterns.SUBNET)] | None = Field(
        default=None, description="Only for a head node or login nodes that are to be public."
    )


class Network(Part):
    """VPC, subnets and who may come in."""

    cidr: Cidr = Field(default="10.0.0.0/16", description="Of the new VPC; /16 to /24.")
    zone: ZoneId = Field(
        description="Availability zone by id, for example use1-az4: names differ from account to account, ids do not."
    )
    existing: ExistingNetwork | None = Field(default=None, description="Use this VPC instead of making one.")
    egress: Literal["nat", "endpoints-only"] = Field(
        default="nat",
        description="How private nodes reach out: a NAT gateway, or AWS services alone by VPC endpoints.",
    )
    clients: tuple[Cidr, ...] = Field(
        default=(),
        description="CIDRs that may open SSH, and Grafana if asked. None by default: connect through SSM.",
    )
    grafana: bool = Field(default=False, description="Open port 443 of the head node to `clients` for Grafana.")
    flow_log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = Field(
        default=30, description="Days that VPC flow logs are kept in CloudWatch Logs."
    )
