"""Repairs of AWS::S3::Bucket: tags, encryption and life cycle of a template are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.serialize import create_serializer
from ministack.core.responses import get_account_id, get_region
from ministack.services import s3
from ministack.services.cloudformation import provisioners

from local.emulator.service import service_model

Properties = dict[str, Any]

_ALGORITHM, _KEY = "x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"


def install() -> None:
    """Carry out the repairs."""
    # services/cloudformation/provisioners.py:1484 applies the properties of this table only.
    provisioners._S3_BUCKET_CONFIGURATIONS = (
        *provisioners._S3_BUCKET_CONFIGURATIONS,
        ("BucketEncryption", _encryption, _accepted(s3._put_bucket_encryption), s3._delete_bucket_encryption),
        ("LifecycleConfiguration", _lifecycle, _accepted(s3._put_bucket_lifecycle), s3._delete_bucket_lifecycle),
        ("Tags", lambda tags: tags, _keep_tags, lambda name: s3._bucket_tags.pop(name, None)),
    )
    # CDK's auto-delete function empties only buckets with the tag aws-cdk:auto-delete-objects.
    provisioners._STACK_TAG_PROPERTY["AWS::S3::Bucket"] = ("Tags", "list")
    _default_key()


def _default_key() -> None:
    # services/s3.py:827 refuses aws:kms without a key; AWS takes the account's aws/s3. The CDK CLI publishes assets so.
    resolve = s3._resolve_sse_write_headers

    def resolved(headers: dict[str, str], bucket_name: str) -> Any:
        if headers.get(_ALGORITHM) == "aws:kms" and not headers.get(_KEY):
            headers = {**headers, _KEY: f"arn:aws:kms:{get_region()}:{get_account_id()}:alias/aws/s3"}
        return resolve(headers, bucket_name)

    s3._resolve_sse_write_headers = resolved


def _accepted(put: Any) -> Any:
    def checked(name: str, body: bytes) -> None:
        status, _headers, answer = put(name, body)
        if status >= 300:
            raise ValueError(answer.decode() if isinstance(answer, bytes) else str(answer))

    return checked


def _keep_tags(name: str, tags: Any) -> None:
    s3._bucket_tags[name] = {str(tag["Key"]): str(tag["Value"]) for tag in tags or []}


def _body(operation: str, **arguments: Any) -> bytes:
    """The XML that boto3 would send."""
    model = service_model("s3").operation_model(operation)
    body: bytes = create_serializer("rest-xml").serialize_to_request({"Bucket": "any", **arguments}, model)["body"]
    return body


def _encryption(property_: Properties) -> bytes:
    names = {"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"}
    rules = [
        {names.get(key, key): value for key, value in rule.items()}
        for rule in property_["ServerSideEncryptionConfiguration"]
    ]
    return _body("PutBucketEncryption", ServerSideEncryptionConfiguration={"Rules": rules})


def _lifecycle(property_: Properties) -> bytes:
    rules = [_rule(rule) for rule in property_["Rules"]]
    return _body("PutBucketLifecycleConfiguration", LifecycleConfiguration={"Rules": rules})


def _rule(rule: Mapping[str, Any]) -> Properties:
    """One rule in the API's form; raises ValueError for a property that is not emulated."""
    same = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")
    known = {*same, "Id", "Prefix", "ExpirationInDays", "ExpiredObjectDeleteMarker", "Transitions"}
    if unknown := sorted(set(rule) - known):
        raise ValueError(f"LifecycleConfiguration: {', '.join(unknown)} is not emulated here.")
    expiration: Properties = {}
    if "ExpirationInDays" in rule:
        expiration["Days"] = int(rule["ExpirationInDays"])
    if "ExpiredObjectDeleteMarker" in rule:
        expiration["ExpiredObjectDeleteMarker"] = str(rule["ExpiredObjectDeleteMarker"]).lower() == "true"
    transitions = [
        {"StorageClass": item["StorageClass"], "Days": int(item["TransitionInDays"])}
        for item in rule.get("Transitions", [])
    ]
    found: Properties = {
        "ID": rule.get("Id"),
        "Filter": {"Prefix": rule.get("Prefix", "")},
        "Expiration": expiration,
        "Transitions": transitions,
    }
    for key in same:
        value = rule.get(key)
        found[key] = {name: int(item) for name, item in value.items()} if isinstance(value, Mapping) else value
    return {key: value for key, value in found.items() if value}
