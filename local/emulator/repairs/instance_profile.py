"""Ref of an instance profile is its ARN instead of its name.

Launch templates give {"IamInstanceProfile": {"Name": {"Ref": ...}}}, and EC2 refuses a name that is an ARN.
"""

from __future__ import annotations

from typing import Any

from ministack.services import iam
from ministack.services.cloudformation import provisioners


def install() -> None:
    """Let the physical id be the name, as on AWS."""
    handler = provisioners._RESOURCE_HANDLERS["AWS::IAM::InstanceProfile"]
    create, update, delete = handler["create"], handler["update"], handler["delete"]

    def arn_of(name: str) -> str:
        return str(iam._instance_profiles.get(name, {}).get("Arn", name))

    def named(made: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        arn, attributes = made
        return arn.rpartition("/")[2], attributes

    handler |= {
        "create": lambda *given: named(create(*given)),
        "update": lambda physical_id, *given: named(update(arn_of(physical_id), *given)),
        "delete": lambda physical_id, *given: delete(arn_of(physical_id), *given),
    }
