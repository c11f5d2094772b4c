"""The network of an environment: a VPC with two subnets in the zone of the capacity, or an existing VPC; endpoints."""

from __future__ import annotations

from aws_cdk import CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model.cluster import Cluster
from settings.model.network import ExistingNetwork
from settings.model.network import Network as NetworkSettings
from settings.model.observability import Observability
from trainyard.addresses import split
from trainyard.endpoint_policies import endpoint_policy
from trainyard.nag import acknowledge
from trainyard.retention import log_group, retain
from trainyard.security import ClosedDefaultSecurityGroup


class Network(Construct):
    """VPC, private subnet and, with access to the internet, a public subnet.

    Built from L1 resources and exposed as `IVpc` and `ISubnet`: the L2 VPC looks up the account's zone names at
    synthesis, and takes zones by name only, while the zone of a capacity reservation is given by id.

    `public_login_nodes` lets the public subnet assign addresses: ParallelCluster requests none for login nodes (3.16.1,
    templates/login_nodes_stack.py), while a public head node has an Elastic IP.

    `keep_for_file_systems` keeps VPC and private subnet when the stack is deleted: a retained file system has its
    network interfaces there, so CloudFormation could not delete them.
    """

    vpc: ec2.IVpc
    private_subnet: ec2.ISubnet
    public_subnet: ec2.ISubnet | None
    nat_gateway_id: str | None = None

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: NetworkSettings,
        public_login_nodes: bool,
        keep_logs: bool,
        keep_for_file_systems: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stack_name = Stack.of(self).stack_name
        if network.existing is not None:
            self._import(network.existing, network.zone)
        else:
            self._create(network, public_login_nodes, keep_logs=keep_logs, keep_for_file_systems=keep_for_file_systems)

    def _import(self, existing: ExistingNetwork, zone: str) -> None:
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=existing.vpc_cidr,
            # Required, and meant for zone names, which only a look-up knows. Nothing here reads it.
            availability_zones=[zone],
        )
        self.private_subnet = ec2.Subnet.from_subnet_id(self, "PrivateSubnet", existing.private_subnet_id)
        self.public_subnet = (
            ec2.Subnet.from_subnet_id(self, "PublicSubnet", existing.public_subnet_id)
            if existing.public_subnet_id
            else None
        )
        acknowledge(self, {"Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId": "Nothing here reads a route table."})

    def _create(
        self, network: NetworkSettings, public_login_nodes: bool, *, keep_logs: bool, keep_for_file_systems: bool
    ) -> None:
        private_block, public_block = split(network.cidr)
        vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=network.cidr,
            # ParallelCluster resolves nodes and file systems by name: it requires both.
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._name("vpc"),
        )
        vpc_id = vpc.ref
        private, private_routes = self._subnet("Private", vpc_id, private_block, network.zone)
        public_ids = public_tables = None
        if network.egress == "nat":
            public, public_routes = self._subnet("Public", vpc_id, public_block, network.zone, public_login_nodes)
            self._internet(vpc_id, public.ref, public_routes, private_routes)
            public_ids, public_tables = [public.ref], [public_routes]

        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Attributes",
            vpc_id=vpc_id,
            vpc_cidr_block=network.cidr,
            availability_zones=[private.attr_availability_zone],
            private_subnet_ids=[private.ref],
            private_subnet_route_table_ids=[private_routes],
            public_subnet_ids=public_ids,
            public_subnet_route_table_ids=public_tables,
        )
        self.private_subnet = self.vpc.private_subnets[0]
        self.public_subnet = self.vpc.public_subnets[0] if public_ids else None

        subnets = [self.private_subnet, *([self.public_subnet] if self.public_subnet else [])]
        # Free of charge; without them checkpoints and the cluster's node table would go through the NAT gateway.
        for service_id, service in (
            ("S3", ec2.GatewayVpcEndpointAwsService.S3),
            ("DynamoDb", ec2.GatewayVpcEndpointAwsService.DYNAMODB),
        ):
            endpoint = self.vpc.add_gateway_endpoint(
                service_id, service=service, subnets=[ec2.SubnetSelection(subnets=subnets)]
            )
            # With NAT the internet is open, and public data sets are read through the S3 endpoint.
            if network.egress == "endpoints-only":
                for statement in endpoint_policy(self, service_id.lower()):
                    endpoint.add_to_policy(statement)
        FlowLogs(self, "FlowLogs", vpc_id=vpc_id, days=network.flow_log_days, kept=keep_logs)
        ClosedDefaultSecurityGroup(self, "DefaultSecurityGroup", group_id=vpc.attr_default_security_group)
        if keep_for_file_systems:
            retain(vpc, kept=True)
            retain(private, kept=True)

    def _subnet(
        self, name: str, vpc_id: str, cidr: str, zone: str, assigns_addresses: bool = False
    ) -> tuple[ec2.CfnSubnet, str]:
        """A subnet, and the id of its route table."""
        subnet = ec2.CfnSubnet(
            self,
            f"{name}Subnet",
            vpc_id=vpc_id,
            cidr_block=cidr,
            availability_zone_id=zone,
            map_public_ip_on_launch=assigns_addresses,
            tags=self._name(name.lower()),
        )
        table = ec2.CfnRouteTable(self, f"{name}RouteTable", vpc_id=vpc_id, tags=self._name(name.lower()))
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{name}RouteTableAssociation", subnet_id=subnet.ref, route_table_id=table.ref
        )
        return subnet, table.ref

    def _internet(self, vpc_id: str, public_subnet: str, public_routes: str, private_routes: str) -> None:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway", tags=self._name("internet"))
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=vpc_id, internet_gateway_id=gateway.ref
        )
        everywhere = "0.0.0.0/0"
        out = ec2.CfnRoute(
            self,
            "PublicDefaultRoute",
            route_table_id=public_routes,
            destination_cidr_block=everywhere,
            gateway_id=gateway.ref,
        )
        out.add_resource_dependency(attachment)
        name = self._name("nat")
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc", tags=name)
        address.add_resource_dependency(attachment)
        allocation = address.attr_allocation_id
        nat = ec2.CfnNatGateway(self, "NatGateway", subnet_id=public_subnet, allocation_id=allocation, tags=name)
        # Before the public route exists, a private node's first packets would be lost.
        nat.add_resource_dependency(out)
        self.nat_gateway_id = nat.ref
        ec2.CfnRoute(
            self,
            "PrivateDefaultRoute",
            route_table_id=private_routes,
            destination_cidr_block=everywhere,
            nat_gateway_id=nat.ref,
        )

    def _name(self, part: str) -> list[CfnTag]:
        return [CfnTag(key="Name", value=f"{self._stack_name}-{part}")]


class FlowLogs(Construct):
    """Flow logs of all traffic of a VPC, accepted and rejected, kept for `days` (a retention of CloudWatch Logs)."""

    def __init__(self, scope: Construct, construct_id: str, *, vpc_id: str, days: int, kept: bool) -> None:
        super().__init__(scope, construct_id)
        group = log_group(self, "LogGroup", days=days, kept=kept)
        stack = Stack.of(self)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "vpc-flow-logs.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {"aws:SourceArn": stack.format_arn(service="ec2", resource="vpc-flow-log/*")},
                },
            ),
        )
        # The VPC guide's list for CloudWatch Logs without the creation of groups: this one exists.
        group.grant(
            role, "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams", "logs:DescribeLogGroups"
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_type="VPC",
            resource_id=vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )


class PrivateEndpoints(Construct):
    """The interface endpoints that this cluster calls, in the private subnet, open to the VPC on port 443 alone.

    Their policies, and those of the gateway endpoints, limit them to the environment's account.

    Source of the list: AWS ParallelCluster guide, a single subnet with no internet access; the policies that
    ParallelCluster 3.16 gives to its nodes; Systems Manager guide, endpoints of Session Manager; ECR guide, endpoints.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: Network,
        cluster: Cluster,
        observability: Observability,
        directory: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
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
            "Sts": service.STS,
            "EcrApi": service.ECR,
            "EcrDocker": service.ECR_DOCKER,
        }
        if cluster.login_nodes is not None:
            # The head node reads the health of the login nodes' load balancer; a login node completes its lifecycle
            # hook.
            services |= {"LoadBalancing": service.ELASTIC_LOAD_BALANCING, "AutoScaling": service.AUTOSCALING}
        if cluster.slurm.accounting or directory:
            # The head node reads the passwords of the database and of the directory of users.
            services |= {"SecretsManager": service.SECRETS_MANAGER}
        if observability.on:
            # Alertmanager and the head node's MailProg publish to the topic.
            services |= {"Sns": service.SNS}
        if observability.mode == "managed":
            # The agent sends series; the host writes dashboards.
            services |= {"Prometheus": service.PROMETHEUS_WORKSPACES, "Grafana": service.GRAFANA}
            services |= {"GrafanaWorkspace": service.GRAFANA_WORKSPACE}
        vpc = network.vpc
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="AWS service endpoints", allow_all_outbound=False
        )
        group.add_ingress_rule(ec2.Peer.ipv4(vpc.vpc_cidr_block), ec2.Port.tcp(443), "HTTPS from the VPC")
        for name, wanted in services.items():
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=wanted,
                subnets=ec2.SubnetSelection(subnets=[network.private_subnet]),
                security_groups=[group],
                open=False,
                private_dns_enabled=True,
            )
            for statement in endpoint_policy(self, wanted.short_name):
                endpoint.add_to_policy(statement)
