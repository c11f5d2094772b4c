"""Repairs of AWS::S3::Bucket (tags, encryption and life cycle of a template are ignored) and of CRC64NVME."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import reduce
from typing import Any

from awscrt import checksums
from botocore.serialize import create_serializer
from ministack.core.responses import get_account_id, get_region
from ministack.services import s3
from ministack.services.cloudformation import provisioners

from local.emulator.service import service_model

Properties = dict[str, Any]

_CRC64 = "CRC64NVME"
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
    _full_object_checksums()


def _full_object_checksums() -> None:
    # services/s3.py:2016 computes CRC64NVME in Python, 7 MB/s; line 2186 makes a composite of the parts' checksums, and
    # lines 8505, 8837 and 8891 call it so. S3 has no composite of CRC64NVME: it gives the checksum of the whole object.
    # Source: Amazon S3 user guide, "Checking object integrity for data uploads", table of full object and composite.
    s3._crc64nvme = checksums.crc64nvme
    composite, complete, create = s3._composite_checksum, s3._complete_multipart_upload, s3._create_multipart_upload
    sizes: list[int] = []

    def full(algorithm: str, parts: list[str | None]) -> str | None:
        if algorithm != _CRC64 or not parts or None in parts:
            found: str | None = composite(algorithm, parts)
            return found
        values = [(int.from_bytes(b64decode(part or ""), "big"), size) for part, size in zip(parts, sizes, strict=True)]
        whole = reduce(lambda one, two: (checksums.combine_crc64nvme(one[0], two[0], two[1]), one[1] + two[1]), values)
        return b64encode(whole[0].to_bytes(8, "big")).decode()

    def completed(bucket: str, key: str, body: bytes, query: Any, headers: Any = None) -> Any:
        upload = s3._multipart_uploads.get(s3._qp(query, "uploadId"), {})
        named = [int(one.text or 0) for one in s3.fromstring(body).iter() if one.tag.endswith("PartNumber")]
        sizes[:] = [upload["parts"][one]["size"] for one in sorted(named) if one in upload.get("parts", {})]
        status, found, answer = complete(bucket, key, body, query, headers)
        if status == 200 and upload.get("checksum_algorithm") == _CRC64:
            s3._buckets[bucket]["objects"][key]["checksum_type"] = "FULL_OBJECT"
            answer = answer.replace(b"<ChecksumType>COMPOSITE<", b"<ChecksumType>FULL_OBJECT<")
        return status, found, answer

    def created(bucket: str, key: str, headers: dict[str, str]) -> Any:
        status, found, answer = create(bucket, key, headers)
        if found.get("x-amz-checksum-algorithm") == _CRC64:
            found["x-amz-checksum-type"] = "FULL_OBJECT"
        return status, found, answer

    def listed(*arguments: Any) -> Any:
        # services/s3.py:8971 leaves the checksum out of ListMultipartUploads.
        status, found, answer = listing(*arguments)
        for name, upload in s3._multipart_uploads.items():
            if upload.get("checksum_algorithm") == _CRC64:
                given = f"<UploadId>{name}</UploadId>"
                whole = f"<ChecksumAlgorithm>{_CRC64}</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
                answer = answer.replace(given.encode(), (given + whole).encode())
        return status, found, answer

    s3._composite_checksum, s3._complete_multipart_upload, s3._create_multipart_upload = full, completed, created
    listing, s3._list_multipart_uploads = s3._list_multipart_uploads, listed


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
