"""What becomes of the data of a resource that is replaced or removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEPT = "kept"
LOST = "lost"

_KEEPING = ("Retain", "RetainExceptOnCreate")


def fate(was: Mapping[str, Any], now: Mapping[str, Any] | None) -> str:
    """In words that begin with `kept` or `lost`.

    A removal goes by the DeletionPolicy that is deployed. A replacement goes by the UpdateReplacePolicy; where the
    change itself sets another one, the worse of the two is told.
    """
    key = "DeletionPolicy" if now is None else "UpdateReplacePolicy"
    policies = {side.get(key, "Delete") for side in (was, now) if side is not None}
    if policies <= set(_KEEPING):
        return f"{KEPT} outside of the stack, which no longer uses it"
    if policies <= {*_KEEPING, "Snapshot"}:
        return f"{KEPT} as a snapshot only"
    kind, properties = str(was["Type"]), was.get("Properties", {})
    if kind == "AWS::S3::Bucket":
        if _emptied(properties):
            return f"{LOST}: the bucket is emptied and deleted"
        return f"{KEPT} where the bucket holds objects (CloudFormation cannot delete it then); else deleted"
    if kind == "AWS::ECR::Repository" and properties.get("EmptyOnDelete") is not True:
        return f"{KEPT} where the repository holds images (CloudFormation cannot delete it then); else deleted"
    return LOST


def _emptied(properties: Mapping[str, Any]) -> bool:
    # The tag by which the CDK's own emptying function knows the buckets that it may empty.
    tags = properties.get("Tags") or ()
    return any(tag.get("Key") == "aws-cdk:auto-delete-objects" and tag.get("Value") == "true" for tag in tags)
