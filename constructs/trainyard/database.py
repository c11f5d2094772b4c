"""The accounting database: Aurora MySQL Serverless v2 with a rotated password, which only the head node reaches."""

from __future__ import annotations

import hashlib
from typing import Any

from aws_cdk import CfnDeletionPolicy, CfnTag, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from settings.model.cluster import Accounting
from settings.model.network import Network as NetworkSettings
from settings.regions import other_zone
from trainyard.addresses import database_block
from trainyard.cluster_config import DatabaseReferences
from trainyard.nag import acknowledge
from trainyard.network import Network
from trainyard.parallelcluster import aurora_version, facts
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs, log_group

USER = "slurm"
"""The master user, as in ParallelCluster's template: slurmdbd creates databases, one for each cluster's name."""
PORT = 3306
LOGS = ("error", "slowquery")
ROTATION_DAYS = 30
_OF_THE_SECRET = (
    "secretsmanager:DescribeSecret",
    "secretsmanager:GetSecretValue",
    "secretsmanager:PutSecretValue",
    "secretsmanager:UpdateSecretVersionStage",
)
PASSWORD_LENGTH = 40
"""As the rotation function makes them (lambda/database_rotation)."""


class AccountingDatabase(Construct):
    """A cluster of one instance, its secret, and the rules that let the head node in and nothing else.

    slurmctld keeps records while the database is away, so there is no second instance; Aurora starts another one, in
    either zone, if the instance fails.

    Args:
        head_group: the head node's security group, which gets a rule for outbound traffic to the database.
        kept: protect it from deletion, and take a final snapshot when CloudFormation deletes it.
        logs: of the rotation function; the database's own logs have the same days and go with it.
    """

    references: DatabaseReferences

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        accounting: Accounting,
        settings: NetworkSettings,
        network: Network,
        head_group: ec2.ISecurityGroup,
        kept: bool,
        logs: FunctionLogs,
    ) -> None:
        super().__init__(scope, construct_id)
        second = accounting.subnet_id or self._second_subnet(settings, accounting, network)
        group = self._group(network.vpc, head_group)
        secret = secretsmanager.Secret(
            self,
            "Password",
            description=f"Password of the user {USER} of the accounting database, as text",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                exclude_punctuation=True, password_length=PASSWORD_LENGTH
            ),
        )
        known = facts("database")
        parameters = rds.CfnDBClusterParameterGroup(
            self,
            "Parameters",
            description="Accounting database: only encrypted connections",
            family=known["family"],
            parameters=known["parameters"],
        )
        # A restored database is another resource, which needs another identifier. Log groups have it in their names:
        # kept ones would prevent the next database of this name.
        restored = hashlib.sha256(accounting.snapshot.encode()).hexdigest()[:6] if accounting.snapshot else ""
        identifier = f"{name}-accounting" + (f"-{restored}" if restored else "")
        groups = [
            log_group(
                self,
                f"Logs-{log}",
                days=logs.days,
                kept=False,
                log_group_name=f"/aws/rds/cluster/{identifier}/{log}",
            )
            for log in LOGS
        ]
        subnets = rds.CfnDBSubnetGroup(
            self,
            "Subnets",
            db_subnet_group_description="Accounting database",
            subnet_ids=[network.private_subnet.subnet_id, second],
        )
        cluster = rds.CfnDBCluster(
            self,
            "Cluster",
            db_cluster_identifier=identifier,
            engine=known["engine"],
            engine_version=aurora_version(accounting.version),
            db_cluster_parameter_group_name=parameters.ref,
            db_subnet_group_name=subnets.ref,
            vpc_security_group_ids=[group.security_group_id],
            port=PORT,
            # A restored database has its snapshot's user, the same. CloudFormation then sets the new password
            # (aws-cloudformation-resource-providers-rds, aws-rds-dbcluster, modifyDbClusterAfterCreateRequest).
            master_username=None if accounting.snapshot else USER,
            master_user_password=secret.secret_value.unsafe_unwrap(),
            snapshot_identifier=accounting.snapshot,
            serverless_v2_scaling_configuration=rds.CfnDBCluster.ServerlessV2ScalingConfigurationProperty(
                min_capacity=0.5, max_capacity=accounting.max_acu
            ),
            backup_retention_period=accounting.backup_days,
            copy_tags_to_snapshot=True,
            deletion_protection=kept,
            storage_encrypted=True,
            enable_cloudwatch_logs_exports=[*LOGS],
        )
        for log in groups:
            cluster.node.add_dependency(log)
        cluster.cfn_options.deletion_policy = CfnDeletionPolicy.SNAPSHOT if kept else CfnDeletionPolicy.DELETE
        cluster.cfn_options.update_replace_policy = CfnDeletionPolicy.SNAPSHOT
        instance = rds.CfnDBInstance(
            self,
            "Instance",
            db_instance_class="db.serverless",
            db_cluster_identifier=cluster.ref,
            engine=known["engine"],
            publicly_accessible=False,
            # A version is an edit of the environment file.
            auto_minor_version_upgrade=False,
        )
        self._rotate(secret, cluster, instance, logs)
        self.references = DatabaseReferences(
            uri=f"{cluster.attr_endpoint_address}:{PORT}", user=USER, password_secret_arn=secret.secret_arn
        )
        acknowledge(
            cluster,
            {
                "AwsSolutions-RDS6": "slurmdbd can only authenticate with a password; it is rotated.",
                "AwsSolutions-RDS11": "Another port hides nothing: only the head node's group is let in.",
                "AwsSolutions-RDS14": "Backtrack rewinds all clusters' records; point-in-time restore makes a copy.",
                **({} if kept else {"AwsSolutions-RDS10": "The environment file says retention.databases: delete."}),
            },
        )

    def _second_subnet(self, settings: NetworkSettings, accounting: Accounting, network: Network) -> str:
        """A subnet in another zone, which Aurora requires; it has no route out of the VPC."""
        vpc_id, tags = network.vpc.vpc_id, [CfnTag(key="Name", value=f"{Stack.of(self).stack_name}-second-zone")]
        subnet = ec2.CfnSubnet(
            self,
            "SecondSubnet",
            vpc_id=vpc_id,
            cidr_block=database_block(settings.cidr),
            availability_zone_id=accounting.zone or other_zone(settings.zone),
            map_public_ip_on_launch=False,
            tags=tags,
        )
        table = ec2.CfnRouteTable(self, "SecondRouteTable", vpc_id=vpc_id, tags=tags)
        ec2.CfnSubnetRouteTableAssociation(
            self, "SecondRouteTableAssociation", subnet_id=subnet.ref, route_table_id=table.ref
        )
        return subnet.ref

    def _group(self, vpc: ec2.IVpc, head: ec2.ISecurityGroup) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Accounting database", allow_all_outbound=False
        )
        rule: dict[str, Any] = {
            "ip_protocol": "tcp",
            "from_port": PORT,
            "to_port": PORT,
            "description": "MySQL: head node to accounting database",
        }
        ec2.CfnSecurityGroupIngress(
            self,
            "FromHead",
            group_id=group.security_group_id,
            source_security_group_id=head.security_group_id,
            **rule,
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "HeadTo",
            group_id=head.security_group_id,
            destination_security_group_id=group.security_group_id,
            **rule,
        )
        return group

    def _rotate(
        self,
        secret: secretsmanager.Secret,
        cluster: rds.CfnDBCluster,
        instance: rds.CfnDBInstance,
        logs: FunctionLogs,
    ) -> None:
        made = PythonFunction(
            self,
            "Rotation",
            module="database_rotation/handler.py",
            description="Rotates the password of the accounting database",
            timeout=Duration.minutes(15),
            logs=logs,
            environment={"CLUSTER": cluster.ref},
        )
        for actions, arn in (
            (("rds:DescribeDBClusters", "rds:ModifyDBCluster"), cluster.attr_db_cluster_arn),
            (_OF_THE_SECRET, secret.secret_arn),
        ):
            made.role.add_to_policy(iam.PolicyStatement(actions=[*actions], resources=[arn]))
        made.function.add_permission(
            "SecretsManager",
            principal=iam.ServicePrincipal("secretsmanager.amazonaws.com"),
            source_account=Stack.of(self).account,
        )
        # The L2 lets any account's secrets call the function, and the function make passwords with the service.
        schedule = secretsmanager.CfnRotationSchedule(
            self,
            "Schedule",
            secret_id=secret.secret_arn,
            rotation_lambda_arn=made.function.function_arn,
            rotation_rules=secretsmanager.CfnRotationSchedule.RotationRulesProperty(
                automatically_after_days=ROTATION_DAYS
            ),
            # Not in the deployment, while the head node reads the password for the first time.
            rotate_immediately_on_update=False,
        )
        schedule.node.add_dependency(made.function, instance)
