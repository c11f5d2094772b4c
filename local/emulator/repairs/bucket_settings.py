"""BucketEncryption and LifecycleConfiguration of a template are ignored; a write with aws:kms must name a key.

On AWS the bucket has them, and drift detection compares them. A write that names no key is encrypted with the account's
aws/s3 key; the CDK CLI publishes assets so where the bucket says aws:kms.
"""

from __future__ import annotations

from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import s3
from ministack.services.cloudformation import provisioners

from local.emulator import bucket_shapes

Properties = dict[str, Any]

_ALGORITHM, _KEY = "x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"


def install() -> None:
    """Put the settings of AWS::S3::Bucket through S3's own operations, which refuse what S3 refuses."""
    handler = provisioners._RESOURCE_HANDLERS["AWS::S3::Bucket"]
    create, update = handler["create"], handler["update"]

    def created(logical_id: str, properties: Properties, stack: str) -> Any:
        made = create(logical_id, properties, stack)
        _apply(made[0], properties, {})
        return made

    def updated(physical_id: str, old: Properties, new: Properties, stack: str) -> Any:
        made = update(physical_id, old, new, stack)
        _apply(made[0], new, old)
        return made

    handler |= {"create": created, "update": updated}
    resolve = s3._resolve_sse_write_headers

    def resolved(headers: dict[str, str], bucket_name: str) -> Any:
        if headers.get(_ALGORITHM) == "aws:kms" and not headers.get(_KEY):
            headers = {**headers, _KEY: f"arn:aws:kms:{get_region()}:{get_account_id()}:alias/aws/s3"}
        return resolve(headers, bucket_name)

    s3._resolve_sse_write_headers = resolved


def _apply(name: str, properties: Properties, old: Properties) -> None:
    if encryption := properties.get("BucketEncryption"):
        configuration = bucket_shapes.encryption_to_api(encryption)
        body = bucket_shapes.written("PutBucketEncryption", ServerSideEncryptionConfiguration=configuration)
        _done(s3._put_bucket_encryption(name, body))
    elif "BucketEncryption" in old:
        s3._delete_bucket_encryption(name)
    if rules := properties.get("LifecycleConfiguration", {}).get("Rules"):
        configuration = {"Rules": [bucket_shapes.rule_to_api(rule) for rule in rules]}
        body = bucket_shapes.written("PutBucketLifecycleConfiguration", LifecycleConfiguration=configuration)
        _done(s3._put_bucket_lifecycle(name, body))
    elif "LifecycleConfiguration" in old:
        s3._delete_bucket_lifecycle(name)


def _done(answer: tuple[int, Any, Any]) -> None:
    if answer[0] >= 300:
        raise ValueError(answer[2].decode() if isinstance(answer[2], bytes) else str(answer[2]))
