"""Bucket tags of a template are ignored.

CDK's auto-delete function empties a bucket only if it carries the tag aws-cdk:auto-delete-objects, so every
bucket with data in it would survive its stack and fail its deletion.
"""

from __future__ import annotations

from typing import Any

from ministack.services import s3
from ministack.services.cloudformation import provisioners


def install() -> None:
    """Keep the Tags of AWS::S3::Bucket, those of the stack included."""
    handler = provisioners._RESOURCE_HANDLERS["AWS::S3::Bucket"]
    create, update = handler["create"], handler["update"]

    def keep(name: str, properties: dict[str, Any]) -> None:
        s3._bucket_tags[name] = {str(t["Key"]): str(t["Value"]) for t in properties.get("Tags", [])}

    def create_with_tags(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        made = create(logical_id, properties, stack)
        keep(made[0], properties)
        return made

    def update_with_tags(physical_id: str, old: dict[str, Any], new: dict[str, Any], stack: str) -> Any:
        made = update(physical_id, old, new, stack)
        keep(made[0], new)
        return made

    handler |= {"create": create_with_tags, "update": update_with_tags}
    provisioners._STACK_TAG_PROPERTY["AWS::S3::Bucket"] = ("Tags", "list")
