"""What CloudFormation does not compare, by the services' own answers."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.response import StreamingBody

from ops.drift import access, assets, fsx
from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.review.structure import ABSENT
from tests.stubs import activated
from trainyard import cluster_bundle

from .stacks import stack_of

READ_ONLY, ADMINISTRATOR = (f"arn:aws:iam::aws:policy/{name}Access" for name in ("ReadOnly", "Administrator"))

Differences = list[tuple[str, object, object]]


def shown(findings: list[Finding]) -> Differences:
    return [(finding.path, finding.expected, finding.actual) for finding in findings]


# --- FSx -------------------------------------------------------------------------------------------------------------
LUSTRE = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
SYSTEM = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": "1200",
    "SecurityGroupIds": ["sg-1"],
    "LustreConfiguration": LUSTRE,
    "Tags": [{"Key": "Name", "Value": "training"}],
}
RECORD: dict[str, Any] = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": 1200,
    "Lifecycle": "AVAILABLE",
    "LustreConfiguration": {**LUSTRE, "MountName": "x"},
    "Tags": [{"Key": "Name", "Value": "training"}, {"Key": "project", "Value": "demo"}],
}
CALLS = {
    fsx.FILE_SYSTEM: ("fs-0123456789abcdef0", "describe_file_systems", "FileSystems"),
    fsx.VOLUME: ("fsvol-0123456789abcdef0", "describe_volumes", "Volumes"),
    fsx.ASSOCIATION: ("dra-0123456789abcdef0", "describe_data_repository_associations", "Associations"),
}


def of_fsx(
    record: Mapping[str, Any] | None, given: Mapping[str, Any], kind: str = fsx.FILE_SYSTEM, *skip: str, **tags: str
) -> Differences:
    """The differences between the properties `given` and FSx's record; None where it has none."""
    key, operation, found = CALLS[kind]
    stack = stack_of({"It": (kind, key, given)}, tags=tags)
    client, stubber = activated("fsx")
    if record is None:
        stubber.add_client_error(operation, "FileSystemNotFound")
    else:
        stubber.add_response(operation, {found: [record]})
    return shown(list(fsx.check(client, stack, Values([stack]), skip)))


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({}, []),
        ({"Lifecycle": "FAILED"}, [("Lifecycle", "AVAILABLE", "FAILED")]),
        ({"Lifecycle": "DELETING"}, [("", "exists", "deleted")]),
        (
            {
                "StorageCapacity": 2400,
                "LustreConfiguration": {**LUSTRE, "PerUnitStorageThroughput": 250},
                "Tags": [{"Key": "project", "Value": "other"}],
            },
            [
                ("StorageCapacity", "1200", "2400"),
                ("LustreConfiguration.PerUnitStorageThroughput", "125", "250"),
                ("Tags[project]", "demo", "other"),
                ("Tags[Name]", "training", ABSENT),
            ],
        ),
    ],
)
def test_file_system(changed: dict[str, Any], differences: Differences) -> None:
    assert of_fsx({**RECORD, **changed}, SYSTEM, project="demo") == differences


def test_missing_and_skipped_file_systems() -> None:
    assert of_fsx(None, SYSTEM) == [("", "exists", "deleted")]
    assert of_fsx(None, SYSTEM, fsx.FILE_SYSTEM, "It") == []


def test_fsx_reports_the_log_stream_of_the_group() -> None:
    group = "arn:aws:logs:us-east-1:111122223333:log-group:/aws/fsx/demo"
    given = {"LustreConfiguration": {"LogConfiguration": {"Level": "WARN_ERROR", "Destination": group}}}
    for stream, differing in ((":log-stream:datarepo_fs-0123456789abcdef0", 0), ("-other:log-stream:x", 1)):
        logs = {"Level": "WARN_ERROR", "Destination": group + stream}
        assert len(of_fsx({"LustreConfiguration": {"LogConfiguration": logs}}, given)) == differing


@pytest.mark.parametrize(
    ("policies", "differing"),
    [
        ({"AutoImportPolicy": {"Events": ["CHANGED", "NEW"]}, "AutoExportPolicy": {"Events": []}}, []),
        ({"AutoImportPolicy": {"Events": ["NEW"]}}, [("S3.AutoImportPolicy.Events", "CHANGED, NEW", "NEW")]),
        ({}, [("S3.AutoImportPolicy.Events", "CHANGED, NEW", "none")]),
    ],
)
def test_events_of_an_association(policies: dict[str, Any], differing: Differences) -> None:
    given = {"FileSystemPath": "/data", "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}}}
    record = {"FileSystemPath": "/data", "S3": policies, "Lifecycle": "AVAILABLE"}
    assert of_fsx(record, given, fsx.ASSOCIATION) == differing


def test_quota_of_a_volume() -> None:
    options = {"Options": ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"]}
    given = {"Name": "shared", "OpenZFSConfiguration": {"StorageCapacityQuotaGiB": 40, **options}}
    record = {"Name": "shared", "OpenZFSConfiguration": {"StorageCapacityQuotaGiB": 50, "VolumePath": "/fsx/shared"}}
    quota = ("OpenZFSConfiguration.StorageCapacityQuotaGiB", "40", "50")
    assert of_fsx(record, given, fsx.VOLUME) == [quota]


# --- security groups -------------------------------------------------------------------------------------------------
HTTPS = {"IpProtocol": "TCP", "FromPort": "443", "ToPort": 443, "CidrIp": "10.0.0.0/8"}
INNER = {"GroupId": {"Fn::GetAtt": ["Group", "GroupId"]}, "IpProtocol": "-1", "SourceSecurityGroupId": {"Ref": "Group"}}
GROUPS = stack_of(
    {"Group": (access.GROUP, "sg-1", {"SecurityGroupIngress": [HTTPS]}), "Rule": (access.INGRESS, "sgr-1", INNER)}
)


def rule(protocol: str, first: int, last: int, *, egress: bool = False, **peer: object) -> dict[str, Any]:
    ports = {"FromPort": first, "ToPort": last}
    return {"GroupId": "sg-1", "IsEgress": egress, "IpProtocol": protocol, **ports, **peer}


RULES = [
    rule("tcp", 443, 443, CidrIpv4="10.0.0.0/8"),
    rule("-1", -1, -1, egress=True, CidrIpv4="0.0.0.0/0"),
    rule("-1", -1, -1, ReferencedGroupInfo={"GroupId": "sg-1"}),
]


@pytest.mark.parametrize(
    ("rules", "skip", "differences"),
    [
        (RULES, "", []),
        ([*RULES, rule("tcp", 20, 22, CidrIpv6="::/0")], "", [("ingress rule", ABSENT, "tcp 20-22 from ::/0")]),
        (RULES[:2], "", [("ingress rule", "anything from sg-1", ABSENT)]),
        (RULES[:2], "Rule", []),
    ],
)
def test_rules_of_security_groups(rules: list[dict[str, Any]], skip: str, differences: Differences) -> None:
    client, stubber = activated("ec2")
    stubber.add_response("describe_security_group_rules", {"SecurityGroupRules": rules})
    assert shown(list(access.check_rules(client, GROUPS, Values([GROUPS]), {skip}))) == differences


def test_a_rule_that_another_stack_adds_to_a_group_is_not_drift() -> None:
    added = {"GroupId": "sg-1", "IpProtocol": "tcp", "FromPort": 9100, "ToPort": 9100, "SourceSecurityGroupId": "sg-2"}
    other = stack_of({"In": (access.INGRESS, "sgr-2", added)})
    exporter = rule("tcp", 9100, 9100, ReferencedGroupInfo={"GroupId": "sg-2"})
    for others, differences in (((GROUPS, other), []), ((), [("ingress rule", ABSENT, "tcp 9100 from sg-2")])):
        client, stubber = activated("ec2")
        stubber.add_response("describe_security_group_rules", {"SecurityGroupRules": [*RULES, exporter]})
        assert shown(list(access.check_rules(client, GROUPS, Values([GROUPS]), others=others))) == differences


# --- roles -----------------------------------------------------------------------------------------------------------
OWN, WIDER = (
    {"Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]} for action in ("s3:GetObject", "s3:*")
)
POLICY = {"PolicyName": "own", "PolicyDocument": OWN, "Roles": [{"Ref": "Role"}]}
ROLES = stack_of(
    {"Role": (access.ROLE, "demo-role", {"ManagedPolicyArns": [READ_ONLY]}), "Policy": (access.POLICY, "x", POLICY)}
)


@pytest.mark.parametrize(
    ("inline", "attached", "differences"),
    [
        ({"own": OWN}, READ_ONLY, []),
        (
            {"own": WIDER, "by-hand": {}},
            ADMINISTRATOR,
            [
                ("policy by-hand", ABSENT, "an inline policy"),
                ("policy own: Statement[0].Action", "s3:GetObject", "s3:*"),
                ("attached policy", ABSENT, ADMINISTRATOR),
                ("attached policy", READ_ONLY, ABSENT),
            ],
        ),
        ({}, READ_ONLY, [("policy own", "an inline policy", ABSENT)]),
    ],
)
def test_policies_of_roles(inline: dict[str, Any], attached: str, differences: Differences) -> None:
    client, stubber = activated("iam")
    stubber.add_response("list_role_policies", {"PolicyNames": list(inline)}, {"RoleName": "demo-role"})
    if "own" in inline:
        document = json.dumps(inline["own"])
        answer = {"RoleName": "demo-role", "PolicyName": "own", "PolicyDocument": document}
        stubber.add_response("get_role_policy", answer)
    policies = [{"PolicyName": "any", "PolicyArn": attached}]
    stubber.add_response("list_attached_role_policies", {"AttachedPolicies": policies})
    assert shown(list(access.check_roles(client, ROLES, Values([ROLES])))) == differences


def test_a_deleted_role_is_left_to_cloudformation() -> None:
    client, stubber = activated("iam")
    stubber.add_client_error("list_role_policies", "NoSuchEntity")
    assert list(access.check_roles(client, ROLES, Values([ROLES]))) == []


# --- assets ----------------------------------------------------------------------------------------------------------
ENTRY = b"#!/bin/bash\n"


@pytest.fixture
def bundle(tmp_path: Path) -> cluster_bundle.Bundle:
    entry = tmp_path / cluster_bundle.ENTRY
    entry.parent.mkdir()
    entry.write_bytes(ENTRY)
    return cluster_bundle.build(tmp_path)


def published(version: str) -> DeployedStack:
    cluster = ("Custom::ParallelCluster", "y", {"AssetsVersion": version})
    return stack_of({"Deployment": (assets.DEPLOYMENT, "x", {"DestinationBucketName": "assets"}), "Cluster": cluster})


def of_assets(version: str, *contents: bytes | None) -> list[Finding]:
    """The findings where the bucket has these objects, in the order in which they are read."""
    client, stubber = activated("s3")
    for content in contents:
        if content is None:
            stubber.add_client_error("get_object", "NoSuchKey")
        else:
            stubber.add_response("get_object", {"Body": StreamingBody(io.BytesIO(content), len(content))})
    stack = published(version)
    found = list(assets.check(client, stack, Values([stack])))
    stubber.assert_no_pending_responses()
    return found


def test_assets(bundle: cluster_bundle.Bundle) -> None:
    version, pointer = bundle.sha256, bundle.pointer.encode()
    assert of_assets(version, pointer, bundle.content, ENTRY) == []
    other = hashlib.sha256(b"other").hexdigest()
    replaced = pointer.replace(version.encode(), other.encode())
    assert shown(of_assets(version, replaced, bundle.content, ENTRY)) == [("sha256", version, other)]
    assert shown(of_assets(version, pointer, None)) == [("", "exists", "deleted")]
    assert shown(of_assets(version, pointer, b"other")) == [("sha256", version, other)]
    [finding] = of_assets(version, pointer, bundle.content, b"curl | sh\n")
    assert finding.subject == "s3://assets/cluster/entry/entry.sh"
