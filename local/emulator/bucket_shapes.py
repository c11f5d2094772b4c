"""Encryption and life cycle of a bucket: CloudFormation's words and S3's, and the XML of S3's API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

Shape = dict[str, Any]

_BY_DEFAULT = ("ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault")
_SAME = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")


@cache
def _model() -> ServiceModel:
    session = botocore.session.Session()
    return ServiceModel(session.get_component("data_loader").load_service_model("s3", "service-2"), "s3")


def written(operation: str, **arguments: Any) -> bytes:
    """The XML that boto3 would send for a Put operation."""
    request = create_serializer("rest-xml").serialize_to_request(
        {"Bucket": "any", **arguments}, _model().operation_model(operation)
    )
    body: bytes = request["body"]
    return body


def read(operation: str, answer: tuple[int, Any, str | bytes]) -> Shape:
    """What boto3 would show for the answer of a Get operation; empty where it is an error."""
    status, _, text = answer
    if status >= 300:
        return {}
    raw = {"status_code": status, "headers": {}, "body": text.encode() if isinstance(text, str) else text}
    shape: Any = _model().operation_model(operation).output_shape
    parsed: Shape = create_parser("rest-xml").parse(raw, shape)
    return {key: value for key, value in parsed.items() if key != "ResponseMetadata"}


def encryption_to_api(property_: Mapping[str, Any]) -> Shape:
    """BucketEncryption as ServerSideEncryptionConfiguration."""
    rules = property_["ServerSideEncryptionConfiguration"]
    return {"Rules": [{_BY_DEFAULT[1] if key == _BY_DEFAULT[0] else key: rule[key] for key in rule} for rule in rules]}


def encryption_from_api(answer: Mapping[str, Any]) -> Shape:
    """The other way round. A bucket key that is off is the same as none."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", [])
    return {
        "ServerSideEncryptionConfiguration": [
            {
                _BY_DEFAULT[0] if key == _BY_DEFAULT[1] else key: value
                for key, value in rule.items()
                if (key, value) != ("BucketKeyEnabled", False)
            }
            for rule in rules
        ]
    }


def rule_to_api(rule: Mapping[str, Any]) -> Shape:
    """One rule of LifecycleConfiguration. Raises ValueError where it holds what is not emulated."""
    known = {*_SAME, "Id", "Prefix", "ExpirationInDays", "ExpiredObjectDeleteMarker", "Transitions"}
    if unknown := sorted(set(rule) - known):
        raise ValueError(f"LifecycleConfiguration: {', '.join(unknown)} is not emulated here.")
    expiration: Shape = {}
    if "ExpirationInDays" in rule:
        expiration["Days"] = int(rule["ExpirationInDays"])
    if "ExpiredObjectDeleteMarker" in rule:
        expiration["ExpiredObjectDeleteMarker"] = str(rule["ExpiredObjectDeleteMarker"]).lower() == "true"
    found: Shape = {"ID": rule.get("Id"), "Filter": {"Prefix": rule.get("Prefix", "")}, "Expiration": expiration}
    found |= {key: _numbers(rule[key]) for key in _SAME if key in rule}
    found["Transitions"] = [
        {"StorageClass": item["StorageClass"], "Days": int(item["TransitionInDays"])}
        for item in rule.get("Transitions", [])
    ]
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def _numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: int(item) for key, item in value.items()}
    return value


def rule_from_api(rule: Mapping[str, Any]) -> Shape:
    """The other way round."""
    expiration = rule.get("Expiration", {})
    found = {
        "Id": rule.get("ID"),
        "Prefix": rule.get("Prefix") or rule.get("Filter", {}).get("Prefix"),
        "ExpirationInDays": expiration.get("Days"),
        "ExpiredObjectDeleteMarker": expiration.get("ExpiredObjectDeleteMarker"),
        "Transitions": [
            {"StorageClass": item["StorageClass"], "TransitionInDays": item.get("Days")}
            for item in rule.get("Transitions", [])
        ],
        **{key: rule.get(key) for key in _SAME},
    }
    return {key: value for key, value in found.items() if value not in (None, "", [])}
