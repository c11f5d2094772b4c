"""Buckets and their policies."""

from __future__ import annotations

import json
from typing import Any

from ministack.services import s3
from ministack.services.cloudformation import drift

from local.emulator import bucket_shapes

Properties = dict[str, Any]

_MINISTACKS: Any = drift._DRIFT_READERS["AWS::S3::Bucket"]


def _bucket(physical_id: str, properties: Properties) -> Properties | None:
    found: Properties | None = _MINISTACKS[0](physical_id, properties)
    if found is None:
        return None
    found["Tags"] = s3._bucket_tags.get(physical_id, {})
    answer = bucket_shapes.read("GetBucketEncryption", s3._get_bucket_encryption(physical_id))
    found["BucketEncryption"] = bucket_shapes.encryption_from_api(answer)
    answer = bucket_shapes.read("GetBucketLifecycleConfiguration", s3._get_bucket_lifecycle(physical_id))
    if rules := answer.get("Rules"):
        found["LifecycleConfiguration"] = {"Rules": [bucket_shapes.rule_from_api(rule) for rule in rules]}
    answer = bucket_shapes.read("GetPublicAccessBlock", s3._get_public_access_block(physical_id))
    return {**found, **answer}


def _policy(_physical_id: str, properties: Properties) -> Properties | None:
    text = s3._bucket_policies.get(properties["Bucket"])
    return None if text is None else {"PolicyDocument": json.loads(text)}


READERS = {
    "AWS::S3::Bucket": (
        _bucket,
        (*_MINISTACKS[1], "BucketEncryption", "LifecycleConfiguration", "PublicAccessBlockConfiguration", "Tags"),
    ),
    "AWS::S3::BucketPolicy": (_policy, ("PolicyDocument",)),
}
