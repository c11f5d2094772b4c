"""The monitoring host: one small instance in the private subnet that runs Prometheus, Alertmanager and Grafana."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import CfnAutoScalingRollingUpdate, CfnTag, CfnUpdatePolicy, Fn, Stack
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from settings.model import Environment
from settings.stacks import ENVIRONMENT_TAG, HOST_TAG
from trainyard import monitoring_bundle
from trainyard.cloudwatch_alarms import runbook
from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard
from trainyard.network import Network
from trainyard.retention import retain
from trainyard.security import SecurityGroups

SCRAPED = {"Head": (9100, 9101), "Compute": (9100, 9400)}
"""Ports of nodes that only the host reaches: node_exporter 9100, slurm-exporter.py 9101, dcgm-exporter 9400."""
ROOT_GIB = 20
# New instances take the newest image, which has the newest patches. It does not change the template.
_IMAGE = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
_START = monitoring_bundle.MONITORING / "host" / "start.sh"
CLOUDWATCH_READ = (
    *("cloudwatch:DescribeAlarms", "cloudwatch:DescribeAlarmsForMetric", "cloudwatch:GetMetricData"),
    *("cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics", "ec2:DescribeInstances", "ec2:DescribeRegions"),
    *("ec2:DescribeTags", "tag:GetResources"),
)
"""What Grafana's CloudWatch source calls for metrics, from AWS's policy AmazonGrafanaCloudWatchAccess, version 1."""


class MonitoringHost(Construct):
    """An Auto Scaling group of one instance, which replaces a broken one, and a data volume that outlives it.

    Nothing connects to the host: users come through Systems Manager. A change of its bundle changes the launch
    template, so CloudFormation replaces the instance, the old one first. It waits until EC2 has launched the new one,
    but not for its scripts: a launch that EC2 refuses fails the deployment, a program that is missing does not.

    Args:
        topic_arn: the topic to which Alertmanager publishes.
        assets: the bucket that may hold the pinned programs, below `cluster/programs/`, as for nodes.
        keep_volume: keep the data volume when the stack is deleted.
        values: more settings of the host, by name.
    """

    role: iam.Role

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        network: Network,
        groups: SecurityGroups,
        assets: s3.IBucket,
        topic_arn: str,
        keep_volume: bool,
        values: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        settings = environment.observability
        self.role = self._role(assets, topic_arn)
        values = {
            "MODE": settings.mode,
            "ENVIRONMENT": environment.name,
            "REGION": environment.region,
            "HEAD": monitoring_bundle.HEAD,
            "ASSETS_BUCKET": assets.bucket_name,
            "RETENTION_DAYS": str(settings.retention_days),
            "VOLUME_GIB": str(settings.volume_gib),
            **values,
        }
        if settings.mode == "self-hosted":
            values |= {"VOLUME_ID": self._volume(keep_volume)}
        self._alarm(topic_arn)
        self._group(network, self._template(self._security_group(network.vpc, groups), topic_arn, values))

    def _role(self, assets: s3.IBucket, topic_arn: str) -> iam.Role:
        name = self._environment.name
        managed = "AmazonSSMManagedInstanceCore"
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description=f"Monitoring host of {name}",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(managed)],
        )
        statements = [
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[assets.arn_for_objects("cluster/programs/*")]),
            iam.PolicyStatement(actions=["sns:Publish"], resources=[topic_arn]),
            iam.PolicyStatement(
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": f"Trainyard/{name}"}},
            ),
        ]
        if self._environment.observability.mode == "self-hosted":
            statements.append(iam.PolicyStatement(actions=[*CLOUDWATCH_READ], resources=["*"]))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        core = f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{managed}]"
        acknowledge(role, {core: "The AWS policy by which the Systems Manager agent works: sessions and parameters."})
        reasons = {
            ANY_RESOURCE: "These calls of CloudWatch, EC2 and tagging take no ARN; metrics have a namespace.",
            wildcard(
                self, assets.bucket_arn, "/cluster/programs/*", owner=assets
            ): "Programs are named by their version.",
        }
        acknowledge(policy, reasons)
        return role

    def _volume(self, kept: bool) -> str:
        """Creates the data volume; returns its id."""
        volume = ec2.CfnVolume(
            self,
            "Data",
            availability_zone_id=self._environment.network.zone,
            size=self._environment.observability.volume_gib,
            volume_type="gp3",
            encrypted=True,
            tags=self._tags("metrics"),
        )
        retain(volume, kept=kept)
        stack = Stack.of(self)
        resources = (("volume", volume.ref), ("instance", "*"))
        arns = [stack.format_arn(service="ec2", resource=kind, resource_name=name) for kind, name in resources]
        own = {"StringEquals": {f"aws:ResourceTag/{HOST_TAG}": self._environment.name}}
        policy = iam.Policy(
            self,
            "Attach",
            roles=[self.role],
            statements=[
                iam.PolicyStatement(actions=["ec2:AttachVolume"], resources=[arn], conditions=own) for arn in arns
            ],
        )
        acknowledge(policy, {wildcard(self, arns[1]): "Narrowed by the tag to the host, whose id is known later."})
        return volume.ref

    def _security_group(self, vpc: ec2.IVpc, groups: SecurityGroups) -> str:
        """Out to the exporters and to AWS, into the nodes; nothing comes in. The group's id."""
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Monitoring host", allow_all_outbound=False
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services and releases of programs")
        own = group.security_group_id
        for node, target in (("Head", groups.head), ("Compute", groups.compute)):
            for port in SCRAPED[node]:
                # L1, for ids that are the same in a pipeline's stage, as in trainyard.security.
                rule: dict[str, Any] = {"ip_protocol": "tcp", "from_port": port, "to_port": port}
                rule |= {"description": f"Metrics of {node.lower()} nodes"}
                out, into = f"To{node}{port}", f"{node}From{port}"
                node_id = target.security_group_id
                ec2.CfnSecurityGroupEgress(self, out, group_id=own, destination_security_group_id=node_id, **rule)
                ec2.CfnSecurityGroupIngress(self, into, group_id=node_id, source_security_group_id=own, **rule)
        return own

    def _template(self, security_group: str, topic_arn: str, values: Mapping[str, str]) -> ec2.CfnLaunchTemplate:
        template = ec2.CfnLaunchTemplate
        profile = iam.CfnInstanceProfile(self, "Profile", roles=[self.role.role_name])
        disk = template.EbsProperty(volume_size=ROOT_GIB, volume_type="gp3", encrypted=True, delete_on_termination=True)
        # CloudFormation tags what it creates; instance and root volume are launched by the group.
        tags = [*self._tags("monitoring"), CfnTag(key=ENVIRONMENT_TAG, value=self._environment.name)]
        return template(
            self,
            "Template",
            launch_template_data=template.LaunchTemplateDataProperty(
                image_id=_IMAGE,
                instance_type=self._environment.observability.instance_type,
                iam_instance_profile=template.IamInstanceProfileProperty(arn=profile.attr_arn),
                security_group_ids=[security_group],
                metadata_options=template.MetadataOptionsProperty(
                    http_tokens="required", http_put_response_hop_limit=1
                ),
                block_device_mappings=[template.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)],
                monitoring=template.MonitoringProperty(enabled=False),
                tag_specifications=[
                    template.TagSpecificationProperty(resource_type=kind, tags=tags) for kind in ("instance", "volume")
                ],
                user_data=Fn.base64(self._user_data(topic_arn, values)),
            ),
        )

    def _user_data(self, topic_arn: str, values: Mapping[str, str]) -> str:
        bundle = monitoring_bundle.build(self._environment, topic_arn)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "monitoring.tar"
            file.write_bytes(bundle.content)
            asset = s3_assets.Asset(self, "Bundle", path=str(file))
        asset_arn = asset.bucket.arn_for_objects(asset.s3_object_key)
        self.role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[asset_arn]))
        start = {
            "URL": asset.s3_object_url,
            "SHA256": bundle.sha256,
            "VALUES": "\n".join(f"{name}={value}" for name, value in sorted(values.items())),
        }
        text = _START.read_text("utf-8")
        for name, value in start.items():
            text = text.replace(f"@{name}@", value)
        return text

    def _group(self, network: Network, template: ec2.CfnLaunchTemplate) -> None:
        group = autoscaling.CfnAutoScalingGroup(
            self,
            "Group",
            min_size="1",
            max_size="1",
            vpc_zone_identifier=[network.private_subnet.subnet_id],
            launch_template=autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
                launch_template_id=template.ref, version=template.attr_latest_version_number
            ),
        )
        # The new instance needs the volume of the old one.
        group.cfn_options.update_policy = CfnUpdatePolicy(
            auto_scaling_rolling_update=CfnAutoScalingRollingUpdate(min_instances_in_service=0, max_batch_size=1)
        )
        reason = "One instance that is replaced: alarms report a host that is not ready, whatever the group did."
        acknowledge(group, {"AwsSolutions-AS3": reason})

    def _alarm(self, topic_arn: str) -> None:
        """Notifies of a host that sends no heartbeat; what it runs cannot report itself."""
        name = self._environment.name
        page = runbook(self._environment, "MonitoringHost")
        find = (
            f"aws ec2 describe-instances --region {self._environment.region} "
            f"--filters Name=tag:{HOST_TAG},Values={name} --query 'Reservations[].Instances[].[InstanceId,State.Name]'"
        )
        cloudwatch.CfnAlarm(
            self,
            "NotReady",
            alarm_name=f"{name}-monitoring-host",
            alarm_description=f"The monitoring host of {name} is not ready, so nothing alerts (expected for a "
            f"few minutes after the first deployment).\nFirst command: {find}\nRunbook: {page}",
            namespace=f"Trainyard/{name}",
            metric_name="MonitoringHostReady",
            statistic="Sum",
            period=60,
            # A replacement takes about five minutes.
            evaluation_periods=10,
            threshold=1,
            comparison_operator="LessThanThreshold",
            treat_missing_data="breaching",
            alarm_actions=[topic_arn],
            ok_actions=[topic_arn],
        )

    def _tags(self, part: str) -> list[CfnTag]:
        name = self._environment.name
        return [CfnTag(key="Name", value=f"{name}-{part}"), CfnTag(key=HOST_TAG, value=name)]
