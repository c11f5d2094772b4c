"""Interface endpoints for a network without a way to the internet."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from settings.model.cluster import Cluster

_Service = ec2.InterfaceVpcEndpointAwsService

# Every cluster calls CloudFormation and EC2 for set-up and scaling, CloudWatch for logs and metrics, SSM for sessions
# (the only access), STS and ECR for images.
_ALWAYS: tuple[tuple[str, ec2.InterfaceVpcEndpointAwsService], ...] = (
    ("CloudFormation", _Service.CLOUDFORMATION),
    ("Ec2", _Service.EC2),
    ("CloudWatchLogs", _Service.CLOUDWATCH_LOGS),
    ("CloudWatchMetrics", _Service.CLOUDWATCH_MONITORING),
    ("Ssm", _Service.SSM),
    ("SsmMessages", _Service.SSM_MESSAGES),
    ("Ec2Messages", _Service.EC2_MESSAGES),
    ("Sts", _Service.STS),
    ("EcrApi", _Service.ECR),
    ("EcrDocker", _Service.ECR_DOCKER),
)
# The head node reads the health of the login nodes' load balancer; a login node completes its lifecycle hook.
_LOGIN_NODES: tuple[tuple[str, ec2.InterfaceVpcEndpointAwsService], ...] = (
    ("LoadBalancing", _Service.ELASTIC_LOAD_BALANCING),
    ("AutoScaling", _Service.AUTOSCALING),
)
# The head node reads the database's password.
_ACCOUNTING: tuple[tuple[str, ec2.InterfaceVpcEndpointAwsService], ...] = (
    ("SecretsManager", _Service.SECRETS_MANAGER),
)


class PrivateEndpoints(Construct):
    """The interface endpoints that this cluster calls, in the private subnet, open to the VPC on port 443 alone.

    Source of the list: AWS ParallelCluster guide, a single subnet with no internet access; the policies that
    ParallelCluster 3.16 gives to its nodes; Systems Manager guide, endpoints of Session Manager; ECR guide, endpoints.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc, subnet: ec2.ISubnet, cluster: Cluster
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="AWS service endpoints", allow_all_outbound=False
        )
        group.add_ingress_rule(ec2.Peer.ipv4(vpc.vpc_cidr_block), ec2.Port.tcp(443), "HTTPS from the VPC")
        services = list(_ALWAYS)
        if cluster.login_nodes is not None:
            services += _LOGIN_NODES
        if cluster.slurm.accounting is not None:
            services += _ACCOUNTING
        for name, service in services:
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnets=[subnet]),
                security_groups=[group],
                open=False,
                private_dns_enabled=True,
            )
