"""The network of an environment: a VPC with two subnets in the zone of the capacity, or one that stands already."""

from __future__ import annotations

from aws_cdk import Stack, Tags
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from settings.model.network import ExistingNetwork
from settings.model.network import Network as NetworkSettings
from trainyard.addresses import split
from trainyard.default_security_group import ClosedDefaultSecurityGroup
from trainyard.flow_logs import FlowLogs
from trainyard.retention import keep


class Network(Construct):
    """VPC, private subnet and, where there is a way out to the internet, a public one.

    Made of L1 resources and then handed out as `IVpc` and `ISubnet`: the L2 VPC asks the account for its zone names
    at synthesis as soon as its stack has a concrete region, and knows zones by name only, while the zone of a
    capacity reservation is given by id.

    `keep_for_file_systems` keeps VPC and private subnet when the stack is deleted: a retained file system has its
    network interfaces there, and CloudFormation would fail to delete them from under it.
    """

    vpc: ec2.IVpc
    private_subnet: ec2.ISubnet
    public_subnet: ec2.ISubnet | None

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: NetworkSettings,
        keep_logs: bool = True,
        keep_for_file_systems: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        if network.existing is not None:
            self._import(network.existing, network.zone)
        else:
            self._create(network, keep_logs=keep_logs, keep_for_file_systems=keep_for_file_systems)

    def _import(self, existing: ExistingNetwork, zone: str) -> None:
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=existing.vpc_cidr,
            # The attribute is required and wants zone names, which only a look-up could tell. Nothing here reads it.
            availability_zones=[zone],
        )
        self.private_subnet = ec2.Subnet.from_subnet_id(self, "PrivateSubnet", existing.private_subnet_id)
        self.public_subnet = (
            ec2.Subnet.from_subnet_id(self, "PublicSubnet", existing.public_subnet_id)
            if existing.public_subnet_id
            else None
        )

    def _create(self, network: NetworkSettings, *, keep_logs: bool, keep_for_file_systems: bool) -> None:
        blocks = split(network.cidr)
        vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=network.cidr,
            # ParallelCluster resolves nodes and file systems by name, and needs both.
            enable_dns_hostnames=True,
            enable_dns_support=True,
        )
        self._name(vpc, "vpc")
        private = self._subnet("Private", vpc, blocks.private, network.zone)
        private_routes = self._route_table("Private", vpc, private)
        public = public_routes = None
        if network.egress == "nat":
            public = self._subnet("Public", vpc, blocks.public, network.zone)
            public_routes = self._route_table("Public", vpc, public)
            self._internet(vpc, public, public_routes, private_routes)

        zone_name = private.attr_availability_zone
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Attributes",
            vpc_id=vpc.ref,
            vpc_cidr_block=network.cidr,
            availability_zones=[zone_name],
            private_subnet_ids=[private.ref],
            private_subnet_route_table_ids=[private_routes.ref],
            public_subnet_ids=[public.ref] if public else None,
            public_subnet_route_table_ids=[public_routes.ref] if public_routes else None,
        )
        self.private_subnet = self.vpc.private_subnets[0]
        self.public_subnet = self.vpc.public_subnets[0] if public else None

        # Free of charge, and what keeps checkpoints and the cluster's node table off the NAT gateway's bill.
        for service_id, service in (
            ("S3", ec2.GatewayVpcEndpointAwsService.S3),
            ("DynamoDb", ec2.GatewayVpcEndpointAwsService.DYNAMODB),
        ):
            self.vpc.add_gateway_endpoint(
                service_id, service=service, subnets=[ec2.SubnetSelection(subnets=[self.private_subnet])]
            )
        FlowLogs(self, "FlowLogs", vpc_id=vpc.ref, days=network.flow_log_days, kept=keep_logs)
        ClosedDefaultSecurityGroup(self, "DefaultSecurityGroup", group_id=vpc.attr_default_security_group)
        if keep_for_file_systems:
            keep(vpc)
            keep(private)

    def _subnet(self, name: str, vpc: ec2.CfnVPC, cidr: str, zone: str) -> ec2.CfnSubnet:
        subnet = ec2.CfnSubnet(
            self,
            f"{name}Subnet",
            vpc_id=vpc.ref,
            cidr_block=cidr,
            availability_zone_id=zone,
            # ParallelCluster gives a public head node its elastic address; nothing else should get one.
            map_public_ip_on_launch=False,
        )
        self._name(subnet, name.lower())
        return subnet

    def _route_table(self, name: str, vpc: ec2.CfnVPC, subnet: ec2.CfnSubnet) -> ec2.CfnRouteTable:
        table = ec2.CfnRouteTable(self, f"{name}RouteTable", vpc_id=vpc.ref)
        self._name(table, name.lower())
        ec2.CfnSubnetRouteTableAssociation(
            self, f"{name}RouteTableAssociation", subnet_id=subnet.ref, route_table_id=table.ref
        )
        return table

    def _internet(
        self,
        vpc: ec2.CfnVPC,
        public: ec2.CfnSubnet,
        public_routes: ec2.CfnRouteTable,
        private_routes: ec2.CfnRouteTable,
    ) -> None:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        self._name(gateway, "internet")
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "InternetGatewayAttachment", vpc_id=vpc.ref, internet_gateway_id=gateway.ref
        )
        out = ec2.CfnRoute(
            self,
            "PublicDefaultRoute",
            route_table_id=public_routes.ref,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.ref,
        )
        out.add_resource_dependency(attachment)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc")
        address.add_resource_dependency(attachment)
        self._name(address, "nat")
        nat = ec2.CfnNatGateway(self, "NatGateway", subnet_id=public.ref, allocation_id=address.attr_allocation_id)
        # Until the public route stands, a private node's first packets would be lost.
        nat.add_resource_dependency(out)
        self._name(nat, "nat")
        ec2.CfnRoute(
            self,
            "PrivateDefaultRoute",
            route_table_id=private_routes.ref,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.ref,
        )

    def _name(self, resource: Construct, part: str) -> None:
        Tags.of(resource).add("Name", f"{Stack.of(self).stack_name}-{part}")
