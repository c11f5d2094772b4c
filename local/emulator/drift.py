"""Drift detection: readers for more types than ministack compares (services/cloudformation/drift.py:219).

A reader returns a resource's present properties in the template's form, or None where it is gone. Added are types that
AWS compares, whose registry schema has a read handler: other types stay NOT_CHECKED, as on AWS.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.parsers
from ministack.services import ec2, iam, s3
from ministack.services.cloudformation import drift

from local.emulator.cloudformation import registry
from local.emulator.fsx import records as fsx
from local.emulator.service import service_model
from local.emulator.wire import call

Properties = dict[str, Any]
Read = Callable[[str, Properties], Properties | None]

_read_bucket: Any = drift._DRIFT_READERS["AWS::S3::Bucket"][0]


def install() -> None:
    """Add the readers."""
    for resource_type, (read, properties) in _READERS.items():
        if "read" in registry.schema(resource_type).get("handlers", {}):
            drift._DRIFT_READERS[resource_type] = (read, frozenset(properties))


def _recorded(records: Any, *keys: str) -> Read:
    """Reads a record of EC2 by its id, with its tags."""

    def read(physical_id: str, _properties: Properties) -> Properties | None:
        record = records.get(physical_id)
        if record is None or record.get("State") == "deleted":
            return None
        return {**{key: record.get(key) for key in keys}, "Tags": ec2._tags.get(physical_id, [])}

    return read


def _rule(physical_id: str, properties: Properties) -> Properties | None:
    filters = [{"Name": "group-id", "Values": [str(properties["GroupId"])]}]
    for rule in call("DescribeSecurityGroupRules", Filters=filters)["SecurityGroupRules"]:
        if rule["SecurityGroupRuleId"] == physical_id:
            return {"Description": rule.get("Description", "")}
    return None


def _route(_physical_id: str, properties: Properties) -> Properties | None:
    for route in ec2._route_tables.get(properties["RouteTableId"], {}).get("Routes", []):
        if route.get("DestinationCidrBlock") == properties.get("DestinationCidrBlock"):
            return {key: route.get(key) for key in ("GatewayId", "NatGatewayId") if key in properties}
    return None


def _address(physical_id: str, _properties: Properties) -> Properties | None:
    keys = [key for key, record in ec2._addresses.items() if record["PublicIp"] == physical_id]
    return {"Tags": ec2._tags.get(keys[0], [])} if keys else None


def _managed_policy(physical_id: str, _properties: Properties) -> Properties | None:
    record = iam._policies.get(physical_id)
    return None if record is None else {"PolicyDocument": _document(record["Versions"][record["DefaultVersionId"]])}


def _document(version: Properties) -> Any:
    document = version["Document"]
    return json.loads(document) if isinstance(document, str) else document


def _instance_profile(physical_id: str, _properties: Properties) -> Properties | None:
    return {} if physical_id in iam._instance_profiles else None


def _bucket(physical_id: str, properties: Properties) -> Properties | None:
    found: Properties | None = _read_bucket(physical_id, properties)
    if found is None:
        return None
    found["Tags"] = s3._bucket_tags.get(physical_id, {})
    rules = _answer("GetBucketEncryption", s3._get_bucket_encryption(physical_id)).get(
        "ServerSideEncryptionConfiguration", {}
    )
    # A bucket key that is off is the same as none.
    found["BucketEncryption"] = {
        "ServerSideEncryptionConfiguration": [
            _renamed(
                {key: value for key, value in rule.items() if (key, value) != ("BucketKeyEnabled", False)},
                ApplyServerSideEncryptionByDefault="ServerSideEncryptionByDefault",
            )
            for rule in rules.get("Rules", [])
        ]
    }
    lifecycle = _answer("GetBucketLifecycleConfiguration", s3._get_bucket_lifecycle(physical_id)).get("Rules")
    if lifecycle:
        found["LifecycleConfiguration"] = {"Rules": [_lifecycle_rule(rule) for rule in lifecycle]}
    return {**found, **_answer("GetPublicAccessBlock", s3._get_public_access_block(physical_id))}


def _lifecycle_rule(rule: Properties) -> Properties:
    expiration, prefix = rule.pop("Expiration", {}), rule.pop("Filter", {}).get("Prefix")
    rule |= _renamed(expiration, Days="ExpirationInDays") | ({"Prefix": prefix} if prefix else {})
    if transitions := rule.pop("Transitions", []):
        rule["Transitions"] = [_renamed(item, Days="TransitionInDays") for item in transitions]
    return _renamed(rule, ID="Id")


def _renamed(value: Properties, **names: str) -> Properties:
    return {names.get(key, key): item for key, item in value.items()}


def _answer(operation: str, answer: tuple[int, Any, str | bytes]) -> Properties:
    """What boto3 would return for the answer of a Get operation of S3; empty for an error."""
    status, _, text = answer
    if status >= 300:
        return {}
    raw = {"status_code": status, "headers": {}, "body": text.encode() if isinstance(text, str) else text}
    shape: Any = service_model("s3").operation_model(operation).output_shape
    parsed: Properties = botocore.parsers.create_parser("rest-xml").parse(raw, shape)
    return {key: value for key, value in parsed.items() if key != "ResponseMetadata"}


def _bucket_policy(_physical_id: str, properties: Properties) -> Properties | None:
    text = s3._bucket_policies.get(properties["Bucket"])
    return None if text is None else {"PolicyDocument": json.loads(text)}


def _volume(physical_id: str, properties: Properties) -> Properties | None:
    record = fsx.VOLUMES.get(physical_id)
    if record is None:
        return None
    wanted = properties.get("OpenZFSConfiguration", {})
    # Options and OriginSnapshot are for creation and deletion only; FSx does not return them.
    settings = {
        key: wanted[key] if key in {"Options", "OriginSnapshot"} else record["OpenZFSConfiguration"].get(key)
        for key in wanted
    }
    return {"Name": record["Name"], "OpenZFSConfiguration": settings, "Tags": record["Tags"]}


def _association(physical_id: str, _properties: Properties) -> Properties | None:
    record = fsx.ASSOCIATIONS.get(physical_id)
    return None if record is None else {key: record[key] for key in _ASSOCIATION}


_ASSOCIATION = ("DataRepositoryPath", "FileSystemId", "FileSystemPath", "ImportedFileChunkSize", "S3", "Tags")
_BUCKET = (
    *drift._DRIFT_READERS["AWS::S3::Bucket"][1],
    *("BucketEncryption", "LifecycleConfiguration", "PublicAccessBlockConfiguration", "Tags"),
)
_SUBNET = ("CidrBlock", "MapPublicIpOnLaunch")
_READERS: dict[str, tuple[Read, tuple[str, ...]]] = {
    "AWS::EC2::VPC": (_recorded(ec2._vpcs, "CidrBlock"), ("CidrBlock", "Tags")),
    "AWS::EC2::Subnet": (_recorded(ec2._subnets, *_SUBNET), (*_SUBNET, "Tags")),
    "AWS::EC2::InternetGateway": (_recorded(ec2._internet_gateways), ("Tags",)),
    "AWS::EC2::RouteTable": (_recorded(ec2._route_tables), ("Tags",)),
    "AWS::EC2::Route": (_route, ("GatewayId", "NatGatewayId")),
    "AWS::EC2::NatGateway": (_recorded(ec2._nat_gateways), ("Tags",)),
    "AWS::EC2::EIP": (_address, ("Tags",)),
    "AWS::EC2::FlowLog": (_recorded(ec2._flow_logs), ()),
    "AWS::EC2::VPCEndpoint": (_recorded(ec2._vpc_endpoints), ()),
    "AWS::EC2::SecurityGroup": (_recorded(ec2._security_groups), ("Tags",)),
    "AWS::EC2::SecurityGroupIngress": (_rule, ("Description",)),
    "AWS::EC2::SecurityGroupEgress": (_rule, ("Description",)),
    "AWS::IAM::ManagedPolicy": (_managed_policy, ("PolicyDocument",)),
    "AWS::IAM::InstanceProfile": (_instance_profile, ()),
    "AWS::S3::Bucket": (_bucket, _BUCKET),
    "AWS::S3::BucketPolicy": (_bucket_policy, ("PolicyDocument",)),
    "AWS::FSx::Volume": (_volume, ("Name", "OpenZFSConfiguration", "Tags")),
    "AWS::FSx::DataRepositoryAssociation": (_association, _ASSOCIATION),
}
