"""The accounting database: what it is made of, who reaches it, what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from database_rotation.handler import LENGTH
from settings.regions import other_zone
from stacks.database import DatabaseStack
from stacks.deployment import compose
from stacks.network import NetworkStack
from tests.constructs.stacks_of import allowed, app_without_bundling, environment, only
from tests.settings.examples import EXISTING
from trainyard import database
from trainyard.parallelcluster import facts

SUBNET = "subnet-0aaaaaaaaaaaaaaaa"
SNAPSHOT = "rds:unit-accounting-2026-11-01"


def made(accounting: object = True, **parts: object) -> Template:
    """The template of the database stack."""
    settings = environment(cluster={"slurm": {"accounting": accounting}}, **parts)
    app = app_without_bundling()
    network = NetworkStack(app, environment=settings)
    return Template.from_stack(DatabaseStack(app, environment=settings, network=network))


@pytest.fixture(scope="module")
def template() -> Template:
    return made()


def cluster_of(template: Template) -> Mapping[str, Any]:
    return only(template, "AWS::RDS::DBCluster")


def test_aurora_is_serverless_encrypted_and_has_backups(template: Template) -> None:
    properties = cluster_of(template)["Properties"]
    assert (properties["Engine"], properties["EngineVersion"]) == ("aurora-mysql", "8.0.mysql_aurora.3.10.4")
    assert properties["ServerlessV2ScalingConfiguration"] == {"MinCapacity": 0.5, "MaxCapacity": 4}
    assert properties["StorageEncrypted"] and properties["CopyTagsToSnapshot"]
    assert properties["BackupRetentionPeriod"] == 14
    assert properties["EnableCloudwatchLogsExports"] == ["error", "slowquery"]
    names = {item["Properties"]["LogGroupName"] for item in groups(template) if "LogGroupName" in item["Properties"]}
    assert names == {f"/aws/rds/cluster/{properties['DBClusterIdentifier']}/{log}" for log in ("error", "slowquery")}
    instance = only(template, "AWS::RDS::DBInstance")["Properties"]
    assert instance["DBInstanceClass"] == "db.serverless"
    assert instance["PubliclyAccessible"] is False and instance["AutoMinorVersionUpgrade"] is False


def groups(template: Template) -> list[Mapping[str, Any]]:
    return list(template.find_resources("AWS::Logs::LogGroup").values())


def test_family_and_parameters_are_those_of_parallelcluster_s_template(template: Template) -> None:
    known = facts("database")
    properties = only(template, "AWS::RDS::DBClusterParameterGroup")["Properties"]
    assert properties["Family"] == known["family"] == "aurora-mysql8.0"
    assert properties["Parameters"] == known["parameters"]
    assert properties["Parameters"]["require_secure_transport"] == "ON"
    # Aurora's version 3 is MySQL 8.0; the model takes no other.
    assert cluster_of(template)["Properties"]["EngineVersion"].startswith(f"{known['engine_version']}.mysql_aurora.3.")


def test_only_the_head_node_reaches_it(template: Template) -> None:
    [group] = template.find_resources("AWS::EC2::SecurityGroup")
    [into] = template.find_resources("AWS::EC2::SecurityGroupIngress").values()
    [out] = template.find_resources("AWS::EC2::SecurityGroupEgress").values()
    own = {"Fn::GetAtt": [group, "GroupId"]}
    assert into["Properties"]["GroupId"] == own and out["Properties"]["DestinationSecurityGroupId"] == own
    head = into["Properties"]["SourceSecurityGroupId"]
    assert out["Properties"]["GroupId"] == head and "SecurityGroupsHead" in head["Fn::ImportValue"]
    for rule in (into, out):
        ports = [rule["Properties"][key] for key in ("IpProtocol", "FromPort", "ToPort")]
        assert ports == ["tcp", 3306, 3306]
    assert cluster_of(template)["Properties"]["VpcSecurityGroupIds"] == [own]


def test_the_second_subnet_is_in_another_zone_without_a_route(template: Template) -> None:
    [subnet] = template.find_resources("AWS::EC2::Subnet").values()
    assert subnet["Properties"]["AvailabilityZoneId"] == "euc1-az1"
    assert subnet["Properties"]["CidrBlock"] == "10.0.255.240/28"
    template.resource_count_is("AWS::EC2::Route", 0)
    subnets = only(template, "AWS::RDS::DBSubnetGroup")["Properties"]["SubnetIds"]
    assert len(subnets) == 2 and "PrivateSubnet" in subnets[0]["Fn::ImportValue"]


@pytest.mark.parametrize(
    ("zone", "other"),
    [
        ("euc1-az2", "euc1-az1"),
        ("euc1-az1", "euc1-az2"),
        ("usw1-az1", "usw1-az3"),
        ("apse3-az3", "apse3-az1"),
        ("use1-az10", "use1-az1"),
    ],
)
def test_the_other_zone(zone: str, other: str) -> None:
    assert other_zone(zone) == other


def test_zone_and_existing_subnet_are_the_file_s() -> None:
    only(made({"zone": "euc1-az3"}), "AWS::EC2::Subnet", AvailabilityZoneId="euc1-az3")
    existing = made({"subnet_id": SUBNET}, network={"existing": EXISTING})
    existing.resource_count_is("AWS::EC2::Subnet", 0)
    assert only(existing, "AWS::RDS::DBSubnetGroup")["Properties"]["SubnetIds"] == [
        EXISTING["private_subnet_id"],
        SUBNET,
    ]


def test_the_password_is_plain_text_that_slurmdbd_and_rds_accept(template: Template) -> None:
    """ParallelCluster's script writes the secret's text into slurmdbd.conf; a JSON would become the password."""
    [secret] = template.find_resources("AWS::SecretsManager::Secret")
    generated = only(template, "AWS::SecretsManager::Secret")["Properties"]["GenerateSecretString"]
    assert generated == {"ExcludePunctuation": True, "PasswordLength": 40}
    assert database.PASSWORD_LENGTH == LENGTH
    password = cluster_of(template)["Properties"]["MasterUserPassword"]
    assert password == {"Fn::Join": ["", ["{{resolve:secretsmanager:", {"Ref": secret}, ":SecretString:::}}"]]}
    assert cluster_of(template)["Properties"]["MasterUsername"] == database.USER


def test_rotation_is_allowed_this_cluster_and_this_secret_alone(template: Template) -> None:
    schedule = only(template, "AWS::SecretsManager::RotationSchedule")
    assert schedule["Properties"]["RotationRules"] == {"AutomaticallyAfterDays": 30}
    assert schedule["Properties"]["RotateImmediatelyOnUpdate"] is False
    assert next(iter(template.find_resources("AWS::RDS::DBInstance"))) in schedule["DependsOn"]
    template.has_resource_properties(
        "AWS::Lambda::Permission",
        {"Principal": "secretsmanager.amazonaws.com", "SourceAccount": "111122223333"},
    )
    [secret], [cluster] = (
        template.find_resources(f"AWS::{kind}") for kind in ("SecretsManager::Secret", "RDS::DBCluster")
    )
    resources = {action: [item["Resource"] for item in items] for action, items in allowed(template).items()}
    assert resources.pop("logs:CreateLogStream") == resources.pop("logs:PutLogEvents") != ["*"]
    own = {"rds": [{"Fn::GetAtt": [cluster, "DBClusterArn"]}], "secretsmanager": [{"Ref": secret}]}
    assert resources == {action: own[action.partition(":")[0]] for action in resources}
    assert {"rds:ModifyDBCluster", "secretsmanager:PutSecretValue"} <= set(resources)
    # No network of its own: RDS sets the password, so that endpoints-only needs nothing more.
    function = only(template, "AWS::Lambda::Function")
    assert "VpcConfig" not in function["Properties"]
    assert function["Properties"]["Environment"] == {"Variables": {"CLUSTER": {"Ref": cluster}}}


@pytest.mark.parametrize(
    ("retention", "protected", "policy"), [("keep", True, "Snapshot"), ("delete", False, "Delete")]
)
def test_what_is_kept(retention: str, protected: bool, policy: str) -> None:
    cluster = cluster_of(made(retention={"databases": retention}))
    assert cluster["Properties"]["DeletionProtection"] is protected
    assert cluster["DeletionPolicy"] == policy
    # A replacement is not a removal.
    assert cluster["UpdateReplacePolicy"] == "Snapshot"


def test_a_restored_database_is_another_one(template: Template) -> None:
    restored = cluster_of(made({"snapshot": SNAPSHOT}))["Properties"]
    assert restored["SnapshotIdentifier"] == SNAPSHOT
    # The registry's schema: with a snapshot no user. The password is set after the restore.
    assert "MasterUsername" not in restored and "MasterUserPassword" in restored
    assert restored["DBClusterIdentifier"] != cluster_of(template)["Properties"]["DBClusterIdentifier"]
    other = cluster_of(made({"snapshot": "other"}))["Properties"]
    assert other["DBClusterIdentifier"] != restored["DBClusterIdentifier"]


def test_the_stack_exists_with_an_own_or_a_removed_database_only() -> None:
    secret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:db"
    for accounting, stack in (
        (None, False),
        ({"uri": "db", "user": "slurm", "password_secret_arn": secret}, False),
        (True, True),
        (False, True),
    ):
        app = app_without_bundling()
        compose(app, environment(cluster={"slurm": {"accounting": accounting}}))
        assert (app.node.try_find_child("database") is not None) is stack, accounting
    assert list(made(False).to_json()["Resources"]) == ["Empty"]


def test_the_cluster_stops_to_use_a_database_before_it_is_removed() -> None:
    app = app_without_bundling()
    compose(app, environment(cluster={"slurm": {"accounting": False}}))
    database = cast(cdk.Stack, app.node.find_child("database"))
    assert app.node.find_child("cluster") in database.dependencies


def test_the_cluster_gets_the_address_and_the_secret() -> None:
    app = app_without_bundling()
    compose(app, environment(cluster={"slurm": {"accounting": True}}))
    cluster = Template.from_stack(app.node.find_child("cluster"))  # type: ignore[arg-type]
    [resource] = cluster.find_resources("Custom::ParallelCluster").values()
    found = resource["Properties"]["Configuration"]["Scheduling"]["SlurmSettings"]["Database"]
    assert found["UserName"] == "slurm" and "Password" in str(found["PasswordSecretArn"]["Fn::ImportValue"])
    assert found["Uri"]["Fn::Join"][1][1] == ":3306" and "EndpointAddress" in json.dumps(found["Uri"])
