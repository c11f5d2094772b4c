"""What CloudFormation does not compare, by the services' own answers."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from ops.drift import assets, fsx, roles, security_groups
from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.review.structure import ABSENT
from trainyard import cluster_bundle

from .stacks import stack_of, stubbed

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def told(findings: list[Finding]) -> list[tuple[str, object, object]]:
    return [(finding.path, finding.expected, finding.actual) for finding in findings]


class TestFsx:
    """File systems, volumes, associations."""

    stack = stack_of(
        {
            "System": (
                fsx.FILE_SYSTEM,
                "fs-0123456789abcdef0",
                {
                    "FileSystemType": "LUSTRE",
                    "StorageCapacity": "1200",
                    "SecurityGroupIds": ["sg-1"],
                    "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
                    "Tags": [{"Key": "Name", "Value": "training"}],
                },
            )
        },
        tags={"project": "demo"},
    )
    record: dict[str, Any] = {  # noqa: RUF012 - never changed
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "Lifecycle": "AVAILABLE",
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125, "MountName": "x"},
        "Tags": [{"Key": "Name", "Value": "training"}, {"Key": "project", "Value": "demo"}],
    }

    def found(self, record: dict[str, Any]) -> list[Finding]:
        client, stubber = stubbed("fsx")
        stubber.add_response(
            "describe_file_systems", {"FileSystems": [record]}, {"FileSystemIds": ["fs-0123456789abcdef0"]}
        )
        return list(fsx.check(client, self.stack, Values([self.stack])))

    def test_as_deployed(self) -> None:
        assert self.found(self.record) == []

    def test_changed(self) -> None:
        changed = {
            **self.record,
            "StorageCapacity": 2400,
            "LustreConfiguration": {**self.record["LustreConfiguration"], "PerUnitStorageThroughput": 250},
            "Tags": [{"Key": "project", "Value": "other"}],
        }
        assert told(self.found(changed)) == [
            ("StorageCapacity", "1200", "2400"),
            ("LustreConfiguration.PerUnitStorageThroughput", "125", "250"),
            ("Tags[project]", "demo", "other"),
            ("Tags[Name]", "training", ABSENT),
        ]

    def test_the_log_stream_of_the_group(self) -> None:
        group = "arn:aws:logs:us-east-1:111122223333:log-group:/aws/fsx/demo"
        given = {"LustreConfiguration": {"LogConfiguration": {"Level": "WARN_ERROR", "Destination": group}}}
        stack = stack_of({"System": (fsx.FILE_SYSTEM, "fs-0123456789abcdef0", given)})
        for stream, differing in ((":log-stream:datarepo_fs-0123456789abcdef0", 0), ("-other:log-stream:x", 1)):
            logs = {"Level": "WARN_ERROR", "Destination": group + stream}
            client, stubber = stubbed("fsx")
            stubber.add_response(
                "describe_file_systems", {"FileSystems": [{"LustreConfiguration": {"LogConfiguration": logs}}]}
            )
            assert len(list(fsx.check(client, stack, Values([stack])))) == differing

    def test_broken_and_being_deleted(self) -> None:
        assert told(self.found({**self.record, "Lifecycle": "FAILED"})) == [("Lifecycle", "AVAILABLE", "FAILED")]
        assert told(self.found({**self.record, "Lifecycle": "DELETING"})) == [("", "exists", "deleted")]

    def test_gone(self) -> None:
        client, stubber = stubbed("fsx")
        stubber.add_client_error("describe_file_systems", "FileSystemNotFound")
        assert told(list(fsx.check(client, self.stack, Values([self.stack])))) == [("", "exists", "deleted")]

    def test_what_cloudformation_compared_is_left_to_it(self) -> None:
        client, _ = stubbed("fsx")
        assert list(fsx.check(client, self.stack, Values([self.stack]), {"System"})) == []

    @pytest.mark.parametrize(
        ("policies", "differing"),
        [
            ({"AutoImportPolicy": {"Events": ["CHANGED", "NEW"]}, "AutoExportPolicy": {"Events": []}}, []),
            ({"AutoImportPolicy": {"Events": ["NEW"]}}, [("S3.AutoImportPolicy.Events", "CHANGED, NEW", "NEW")]),
            ({}, [("S3.AutoImportPolicy.Events", "CHANGED, NEW", "none")]),
        ],
    )
    def test_events(self, policies: dict[str, Any], differing: list[Any]) -> None:
        given = {"FileSystemPath": "/data", "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}}}
        stack = stack_of({"Link": (fsx.ASSOCIATION, "dra-0123456789abcdef0", given)})
        client, stubber = stubbed("fsx")
        stubber.add_response(
            "describe_data_repository_associations",
            {"Associations": [{"FileSystemPath": "/data", "S3": policies, "Lifecycle": "AVAILABLE"}]},
        )
        assert told(list(fsx.check(client, stack, Values([stack])))) == differing

    def test_a_volumes_quota(self) -> None:
        given = {
            "Name": "shared",
            "OpenZFSConfiguration": {"StorageCapacityQuotaGiB": 40, "Options": ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"]},
        }
        stack = stack_of({"Volume": (fsx.VOLUME, "fsvol-0123456789abcdef0", given)})
        client, stubber = stubbed("fsx")
        record = {
            "Name": "shared",
            "OpenZFSConfiguration": {"StorageCapacityQuotaGiB": 50, "VolumePath": "/fsx/shared"},
        }
        stubber.add_response("describe_volumes", {"Volumes": [record]})
        assert told(list(fsx.check(client, stack, Values([stack])))) == [
            ("OpenZFSConfiguration.StorageCapacityQuotaGiB", "40", "50")
        ]


class TestSecurityGroups:
    """Rules that stand against rules that were deployed."""

    stack = stack_of(
        {
            "Group": (
                security_groups.GROUP,
                "sg-1",
                {
                    "SecurityGroupIngress": [
                        {"IpProtocol": "TCP", "FromPort": "443", "ToPort": 443, "CidrIp": "10.0.0.0/8"}
                    ]
                },
            ),
            "Rule": (
                security_groups.INGRESS,
                "sgr-1",
                {
                    "GroupId": {"Fn::GetAtt": ["Group", "GroupId"]},
                    "IpProtocol": "-1",
                    "SourceSecurityGroupId": {"Ref": "Group"},
                },
            ),
        }
    )
    standing = [  # noqa: RUF012 - never changed
        {
            "GroupId": "sg-1",
            "IsEgress": False,
            "IpProtocol": "tcp",
            "FromPort": 443,
            "ToPort": 443,
            "CidrIpv4": "10.0.0.0/8",
        },
        {
            "GroupId": "sg-1",
            "IsEgress": False,
            "IpProtocol": "-1",
            "FromPort": -1,
            "ToPort": -1,
            "ReferencedGroupInfo": {"GroupId": "sg-1"},
        },
        {
            "GroupId": "sg-1",
            "IsEgress": True,
            "IpProtocol": "-1",
            "FromPort": -1,
            "ToPort": -1,
            "CidrIpv4": "0.0.0.0/0",
        },
    ]

    def found(self, rules: list[dict[str, Any]], *leave: str) -> list[Finding]:
        client, stubber = stubbed("ec2")
        stubber.add_response("describe_security_group_rules", {"SecurityGroupRules": rules})
        return list(security_groups.check(client, self.stack, Values([self.stack]), leave))

    def test_as_deployed(self) -> None:
        assert self.found(self.standing) == []

    def test_opened(self) -> None:
        opened = {
            "GroupId": "sg-1",
            "IsEgress": False,
            "IpProtocol": "tcp",
            "FromPort": 20,
            "ToPort": 22,
            "CidrIpv6": "::/0",
        }
        assert told(self.found([*self.standing, opened])) == [("ingress rule", ABSENT, "tcp 20-22 from ::/0")]

    def test_gone(self) -> None:
        assert told(self.found(self.standing[:1] + self.standing[2:])) == [
            ("ingress rule", "anything from sg-1", ABSENT)
        ]
        assert self.found(self.standing[:1] + self.standing[2:], "Rule") == []


class TestRoles:
    """Policies of roles."""

    document = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}  # noqa: RUF012
    stack = stack_of(
        {
            "Role": (roles.ROLE, "demo-role", {"ManagedPolicyArns": ["arn:aws:iam::aws:policy/ReadOnlyAccess"]}),
            "Policy": (
                roles.POLICY,
                "x",
                {"PolicyName": "own", "PolicyDocument": document, "Roles": [{"Ref": "Role"}]},
            ),
        }
    )

    def found(self, inline: dict[str, Any], *attached: str) -> list[Finding]:
        client, stubber = stubbed("iam")
        stubber.add_response("list_role_policies", {"PolicyNames": list(inline)}, {"RoleName": "demo-role"})
        if "own" in inline:
            stubber.add_response(
                "get_role_policy",
                {"RoleName": "demo-role", "PolicyName": "own", "PolicyDocument": json.dumps(inline["own"])},
            )
        stubber.add_response(
            "list_attached_role_policies",
            {"AttachedPolicies": [{"PolicyName": arn.rpartition("/")[2], "PolicyArn": arn} for arn in attached]},
        )
        return list(roles.check(client, self.stack, Values([self.stack])))

    def test_as_deployed(self) -> None:
        assert self.found({"own": self.document}, "arn:aws:iam::aws:policy/ReadOnlyAccess") == []

    def test_broadened(self) -> None:
        wider = {"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        found = self.found({"own": wider, "by-hand": {}}, "arn:aws:iam::aws:policy/AdministratorAccess")
        assert told(found) == [
            ("policy by-hand", ABSENT, "an inline policy"),
            ("policy own: Statement[0].Action", "s3:GetObject", "s3:*"),
            ("attached policy", ABSENT, "arn:aws:iam::aws:policy/AdministratorAccess"),
            ("attached policy", "arn:aws:iam::aws:policy/ReadOnlyAccess", ABSENT),
        ]

    def test_taken_away(self) -> None:
        found = self.found({}, "arn:aws:iam::aws:policy/ReadOnlyAccess")
        assert told(found) == [("policy own", "an inline policy", ABSENT)]

    def test_a_role_that_is_gone_is_left_to_cloudformation(self) -> None:
        client, stubber = stubbed("iam")
        stubber.add_client_error("list_role_policies", "NoSuchEntity")
        assert list(roles.check(client, self.stack, Values([self.stack]))) == []


class TestAssets:
    """What is published for the nodes."""

    @pytest.fixture
    def bundle(self, tmp_path: Path) -> cluster_bundle.Bundle:
        entry = tmp_path / cluster_bundle.ENTRY
        entry.parent.mkdir()
        entry.write_text("#!/bin/bash\n")
        return cluster_bundle.build(tmp_path)

    def stack(self, version: str) -> DeployedStack:
        return stack_of(
            {
                "Deployment": (assets.DEPLOYMENT, "x", {"DestinationBucketName": "assets"}),
                "Cluster": ("Custom::ParallelCluster", "y", {"AssetsVersion": version}),
            }
        )

    def found(self, version: str, *contents: bytes | None) -> list[Finding]:
        client, stubber = stubbed("s3")
        for content in contents:
            _answer(stubber, content)
        stack = self.stack(version)
        found = list(assets.check(client, stack, Values([stack])))
        stubber.assert_no_pending_responses()
        return found

    def test_as_deployed(self, bundle: cluster_bundle.Bundle) -> None:
        assert self.found(bundle.sha256, bundle.pointer.encode(), bundle.content, b"#!/bin/bash\n") == []

    def test_another_pointer(self, bundle: cluster_bundle.Bundle) -> None:
        pointer = bundle.pointer.replace(bundle.sha256, "0" * 64).encode()
        [finding] = self.found(bundle.sha256, pointer, bundle.content, b"#!/bin/bash\n")
        assert (finding.path, finding.actual) == ("sha256", "0" * 64)

    def test_the_bundle_is_gone_or_another(self, bundle: cluster_bundle.Bundle) -> None:
        assert told(self.found(bundle.sha256, bundle.pointer.encode(), None)) == [("", "exists", "deleted")]
        other = hashlib.sha256(b"other").hexdigest()
        assert told(self.found(bundle.sha256, bundle.pointer.encode(), b"other")) == [("sha256", bundle.sha256, other)]

    def test_another_entry_script(self, bundle: cluster_bundle.Bundle) -> None:
        [finding] = self.found(bundle.sha256, bundle.pointer.encode(), bundle.content, b"curl | sh\n")
        assert finding.subject == "s3://assets/cluster/entry/entry.sh"


def _answer(stubber: Stubber, content: bytes | None) -> None:
    if content is None:
        stubber.add_client_error("get_object", "NoSuchKey")
    else:
        stubber.add_response("get_object", {"Body": StreamingBody(io.BytesIO(content), len(content))})
