"""`trainyard drift` against a deployment with changes by hand."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.client
import pytest

from cli import main
from local.control import Control
from ops.drift import CALLED
from tests.e2e.conftest import ROOT
from tests.ops.deployment.deployed import GPU_NODES, Deployed

pytestmark = pytest.mark.e2e

SETTLE_S = 300


@dataclass
class Drifting(Deployed):
    """The deployment, and the command."""

    def resource(self, stack: str, kind: str, part: str = "") -> str:
        """Physical id of the first resource of a type whose logical id holds `part`."""
        found = self.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
        ours = (item for item in found if item["ResourceType"] == kind and part in item["LogicalResourceId"])
        return str(next(ours)["PhysicalResourceId"])

    def run(self, *options: str, command: str = "drift") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli", command, str(self.local.file), "--on", "aws", *options],
            cwd=ROOT,
            env=self.emulator.child_environment() | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def report(self, status: int) -> dict[str, Any]:
        """The report of a run that must end with this status."""
        result = self.run("--format", "json")
        assert result.returncode == status, result.stdout + result.stderr
        assert all(line.startswith("drift: ") for line in result.stderr.splitlines())
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def findings(self) -> dict[tuple[str, str, str], tuple[object, object]]:
        """Expected and actual by part, name of the resource and path, of a run that must find drift."""
        return {
            (item["part"], item["subject"].partition(" ")[0], item["path"]): (item["expected"], item["actual"])
            for item in self.report(1)["findings"]
        }


@pytest.fixture(scope="module")
def deployed(deployment: Deployed) -> Drifting:
    return Drifting(deployment.local, deployment.emulator)


def test_untouched(deployed: Drifting) -> None:
    report = deployed.report(0)
    assert report["level"] == "none"
    assert report["findings"] == [] and report["missing"] == [] and report["undeployed"] == {}
    assert report["checked"] > 150
    assert report["unchecked"]["AWS::Scheduler::Schedule"] == 1
    assert "AWS::FSx::FileSystem" not in report["unchecked"]


def test_an_edit_that_is_not_deployed_is_not_drift(deployed: Drifting) -> None:
    before = deployed.local.file.read_text()
    deployed.local.edit(r"keep_images: 5", "keep_images: 6")
    try:
        result = deployed.run()
    finally:
        deployed.local.file.write_text(before)
    assert result.returncode == 0, result.stderr
    assert "Not deployed yet (this is not drift): the file differs" in result.stdout
    assert "in 1 resource, local-images (1). To see the effect: trainyard diff" in result.stdout


def test_the_fleet_and_the_clusters_own_stack(deployed: Drifting) -> None:
    logs, group = deployed.client("logs"), deployed.resource("local", "AWS::Logs::LogGroup")
    control = Control(deployed.emulator)
    control.fleet("local", "PROTECTED")
    logs.put_retention_policy(logGroupName=group, retentionInDays=1)
    try:
        found = {(part, path): sides for (part, _, path), sides in deployed.findings().items()}
    finally:
        control.fleet("local", "RUNNING")
        logs.put_retention_policy(logGroupName=group, retentionInDays=7)
    fleet, retention = ("cluster", "computeFleetStatus"), ("local", "RetentionInDays")
    assert found == {fleet: ("RUNNING", "PROTECTED"), retention: ("7", "1")}


def test_an_update_with_the_pcluster_cli(deployed: Drifting) -> None:
    """One more p5.48xlarge at most. The way back is refused while the fleet runs, so the update stays."""
    configuration = deployed.configuration()
    [compute] = configuration["Scheduling"]["SlurmQueues"][0]["ComputeResources"]
    compute["MaxCount"] += 1
    deployed.api("PUT", "", {"clusterConfiguration": json.dumps(configuration)})
    until = time.monotonic() + SETTLE_S
    while (status := deployed.api("GET", "")[1]["clusterStatus"]) != "UPDATE_COMPLETE":
        assert time.monotonic() < until, status
        time.sleep(1)
    result = deployed.run()
    assert result.returncode == 1
    assert "Drift: 1 difference from what was deployed, in cluster." in result.stdout
    assert "Scheduling.SlurmQueues[gpu].ComputeResources[p5].MaxCount" in result.stdout
    verdict = json.loads(deployed.run("--format", "json", command="diff").stdout)
    assert verdict["level"] == "disruptive" and verdict["unread"] == []
    assert (
        f"ComputeResources[p5].MaxCount (deployed {GPU_NODES}, now {GPU_NODES + 1}); put the values"
        in verdict["outside"][0]
    )


def test_changes_by_hand(deployed: Drifting, tmp_path: Path) -> None:
    """All at once, and each is named. Last in this file: not everything is taken back."""
    ec2, fsx, iam, s3, ssm = (deployed.client(name) for name in ("ec2", "fsx", "iam", "s3", "ssm"))

    head = deployed.resource("local-network", "AWS::EC2::SecurityGroup", "Head")
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    ec2.authorize_security_group_ingress(GroupId=head, IpPermissions=[ssh])
    lustre = deployed.resource("local-network", "AWS::EC2::SecurityGroup", "Lustre")
    rule = deployed.resource("local-network", "AWS::EC2::SecurityGroupIngress", "LustreFromHeadTcp988")
    ec2.revoke_security_group_ingress(GroupId=lustre, SecurityGroupRuleIds=[rule])
    vpc = deployed.resource("local-network", "AWS::EC2::VPC")
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
    [default] = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.authorize_security_group_egress(GroupId=default["GroupId"], IpPermissions=everything)

    system = deployed.resource("local-storage", "AWS::FSx::FileSystem", "Lustre")
    fsx.update_file_system(FileSystemId=system, LustreConfiguration={"PerUnitStorageThroughput": 250})
    arn = fsx.describe_file_systems(FileSystemIds=[system])["FileSystems"][0]["ResourceARN"]
    fsx.tag_resource(ResourceARN=arn, Tags=[{"Key": "project", "Value": "another"}])
    volume = deployed.resource("local-storage", "AWS::FSx::Volume", "shared")
    fsx.update_volume(VolumeId=volume, OpenZFSConfiguration={"StorageCapacityQuotaGiB": 50})
    link = deployed.resource("local-data-links", "AWS::FSx::DataRepositoryAssociation", "trainingdata")
    fsx.update_data_repository_association(AssociationId=link, S3={"AutoImportPolicy": {"Events": ["NEW"]}})
    gone = deployed.resource("local-data-links", "AWS::FSx::DataRepositoryAssociation", "trainingcheckpoints")
    fsx.delete_data_repository_association(AssociationId=gone)

    bucket = deployed.resource("local-storage", "AWS::S3::Bucket", "Data")
    encryption = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=encryption)
    s3.delete_bucket_lifecycle(Bucket=deployed.resource("local-storage", "AWS::S3::Bucket", "Checkpoints"))
    assets = deployed.resource("local-storage", "AWS::S3::Bucket", "Assets")
    s3.put_object(Bucket=assets, Key="cluster/entry/entry.sh", Body=b"#!/bin/sh\n")

    flow_logs = deployed.resource("local-network", "AWS::Logs::LogGroup", "FlowLogs")
    deployed.client("logs").delete_log_group(logGroupName=flow_logs)
    work = deployed.resource("local-api", "AWS::IAM::Role", "WorkRole")
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_role_policy(RoleName=work, PolicyName="by-hand", PolicyDocument=json.dumps(document))
    iam.attach_role_policy(RoleName=work, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    ssm.put_parameter(Name="/trainyard/local/cluster/name", Value="other", Type="String", Overwrite=True)

    things = deployed.findings()

    def one(part: str, name: str, path: str) -> tuple[object, object]:
        [value] = [value for key, value in things.items() if key[0] == part and name in key[1] and path in key[2]]
        return value

    for part, name, path, sides in (
        ("local-network", "SecurityGroupsHead", "ingress rule", (None, "tcp 22 from 0.0.0.0/0")),
        ("local-network", "SecurityGroupsLustreFromHeadTcp988", "", ("exists", "deleted")),
        ("local-network", "the", "egress rule", (None, "anything to 0.0.0.0/0")),
        ("local-network", "FlowLogsLogGroup", "", ("exists", "deleted")),
        ("local-storage", "LustretrainingFileSystem", "PerUnitStorageThroughput", ("125", "250")),
        ("local-storage", "LustretrainingFileSystem", "Tags[project]", ("trainyard", "another")),
        ("local-storage", "OpenZfsVolumeshared", "StorageCapacityQuotaGiB", ("40", "50")),
        ("local-storage", "BucketsData", "SSEAlgorithm", ("AES256", "aws:kms")),
        ("local-data-links", "trainingcheckpoints", "", ("exists", "deleted")),
        ("local-api", "WorkRole", "policy by-hand", (None, "an inline policy")),
        ("local-api", "WorkRole", "attached policy", (None, "arn:aws:iam::aws:policy/AdministratorAccess")),
        ("local-cluster", "clustername", "Value", ("local", "other")),
    ):
        assert one(part, name, path) == sides, (part, name, path)
    assert any(key[1].startswith("trainingdata") and "Events" in key[2] for key in things)
    assert one("local-storage", "BucketsCheckpoints", "LifecycleConfiguration")[1] is None
    deployed_entry, entry = one("assets", "entry.sh", "sha256")
    assert deployed_entry != entry

    output = tmp_path / "report.md"
    status, calls = in_this_process(deployed, "--format", "markdown", "--output", str(output))
    assert status == 1
    assert "| `ingress rule` | `none` | `tcp 22 from 0.0.0.0/0` |" in output.read_text()
    assert calls == set(CALLED), "no more and no less"


def in_this_process(deployed: Drifting, *options: str) -> tuple[int, set[str]]:
    """The exit status, and the calls that were made."""
    made: set[str] = set()
    call = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]

    def recorded(self: Any, operation: str, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 - botocore's
        made.add(f"{self.meta.service_model.signing_name}:{operation}")
        return call(self, operation, arguments)

    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in deployed.emulator.env().items():
            patch.setenv(name, value)
        patch.setattr(botocore.client.BaseClient, "_make_api_call", recorded)
        return main(["drift", str(deployed.local.file), "--on", "aws", *options]), made
