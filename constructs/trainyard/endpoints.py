"""Interface endpoints for a network without a way to the internet."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from settings.model.cluster import Cluster


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
        for name, service in _services(cluster).items():
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


def _services(cluster: Cluster) -> dict[str, ec2.InterfaceVpcEndpointAwsService]:
    """By construct id, in the order of the template."""
    service = ec2.InterfaceVpcEndpointAwsService
    # Every cluster calls CloudFormation and EC2 for set-up and scaling, CloudWatch for logs and metrics, SSM for
    # sessions (the only access), STS and ECR for images.
    services = {
        "CloudFormation": service.CLOUDFORMATION,
        "Ec2": service.EC2,
        "CloudWatchLogs": service.CLOUDWATCH_LOGS,
        "CloudWatchMetrics": service.CLOUDWATCH_MONITORING,
        "Ssm": service.SSM,
        "SsmMessages": service.SSM_MESSAGES,
        "Ec2Messages": service.EC2_MESSAGES,
        "Sts": service.STS,
        "EcrApi": service.ECR,
        "EcrDocker": service.ECR_DOCKER,
    }
    if cluster.login_nodes is not None:
        # The head node reads the health of the login nodes' load balancer; a login node completes its lifecycle hook.
        services |= {"LoadBalancing": service.ELASTIC_LOAD_BALANCING, "AutoScaling": service.AUTOSCALING}
    if cluster.slurm.accounting is not None:
        # The head node reads the database's password.
        services |= {"SecretsManager": service.SECRETS_MANAGER}
    return services
