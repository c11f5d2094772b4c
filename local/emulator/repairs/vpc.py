"""Attributes of VPC, subnet and internet gateway types that GetAtt can ask for and ministack leaves out.

CDK names the VPC's CidrBlock in the default security group's rules and exports subnets' zones.
"""

from __future__ import annotations

from typing import Any

from ministack.services import ec2
from ministack.services.cloudformation import provisioners


def install() -> None:
    """Add the attributes after create and update."""
    _extend(
        "AWS::EC2::VPC",
        lambda key: {"CidrBlock": ec2._vpcs[key]["CidrBlock"], "CidrBlockAssociations": [], "Ipv6CidrBlocks": []},
    )
    _extend(
        "AWS::EC2::Subnet",
        lambda key: {name: ec2._subnets[key][name] for name in ("VpcId", "CidrBlock", "AvailabilityZoneId")},
    )


def _extend(resource_type: str, attributes: Any) -> None:
    handler = provisioners._RESOURCE_HANDLERS[resource_type]
    for step in ("create", "update"):
        original = handler[step]

        def extended(*arguments: Any, original: Any = original) -> Any:
            physical_id, found = original(*arguments)
            return physical_id, {**(found or {}), **attributes(physical_id)}

        handler[step] = extended
