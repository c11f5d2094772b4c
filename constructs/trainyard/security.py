"""Security groups of the nodes and the file systems, and the VPC's default group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct, IConstruct

from settings.model.network import Network as NetworkSettings
from trainyard.nag import acknowledge
from trainyard.retention import keep


@dataclass(frozen=True)
class Ports:
    """A range of ports of a protocol, by EC2's names; -1 means all protocols."""

    protocol: str
    first: int | None = None
    last: int | None = None

    @property
    def label(self) -> str:
        """Their name in a rule's construct id."""
        return "All" if self.first is None else f"{self.protocol.capitalize()}{self.first}"


# LNET between clients and file servers, in both directions (FSx for Lustre guide, access control with a VPC).
LUSTRE_PORTS = (Ports("tcp", 988, 988), Ports("tcp", 1018, 1023))
# rpcbind, NFS, and mountd, statd and lockd where FSx puts them (FSx for OpenZFS guide, access control with a VPC).
NFS_PORTS = tuple(
    Ports(protocol, first, last)
    for first, last in ((111, 111), (2049, 2049), (20001, 20003))
    for protocol in ("tcp", "udp")
)
EVERYTHING = (Ports("-1"),)


class SecurityGroups(Construct):
    """Groups for head, compute and login nodes, for Lustre and for OpenZFS.

    ParallelCluster creates its own groups for traffic between the nodes and to the internet. These groups are added
    (AdditionalSecurityGroups) for what it does not know: access to the file systems, EFA, and client networks. None of
    them opens anything to the internet, and each allows outbound traffic only to groups of this set.

    Args:
        efa_storage: open all traffic between compute nodes and Lustre, as an EFA-enabled file system requires.
        keep_for_file_systems: keep the file systems' groups when the stack is deleted; retained file systems use them.
    """

    head: ec2.ISecurityGroup
    compute: ec2.ISecurityGroup
    login: ec2.ISecurityGroup
    lustre: ec2.ISecurityGroup
    openzfs: ec2.ISecurityGroup

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        network: NetworkSettings,
        efa_storage: bool = False,
        keep_for_file_systems: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        head = self._group(vpc, "Head", "Head node: file systems and clients")
        compute = self._group(vpc, "Compute", "Compute nodes: EFA and file systems")
        login = self._group(vpc, "Login", "Login nodes: file systems and clients")
        lustre = self._group(vpc, "Lustre", "FSx for Lustre file systems")
        openzfs = self._group(vpc, "OpenZfs", "FSx for OpenZFS file system")

        named = {"Head": head, "Compute": compute, "Login": login, "Lustre": lustre, "OpenZfs": openzfs}
        groups = {name: group.security_group_id for name, group in named.items()}
        for node in ("Head", "Compute", "Login"):
            self._allow(groups, node, "Lustre", LUSTRE_PORTS, "Lustre")
            # File servers connect to clients for lock callbacks.
            self._allow(groups, "Lustre", node, LUSTRE_PORTS, "Lustre")
            self._allow(groups, node, "OpenZfs", NFS_PORTS, "NFS")
        self._allow(groups, "Lustre", "Lustre", LUSTRE_PORTS, "Lustre")

        # EFA requires rules that name the group itself, in both directions and for all protocols.
        self._allow(groups, "Compute", "Compute", EVERYTHING, "EFA")
        if efa_storage:
            for source, target in (("Lustre", "Lustre"), ("Compute", "Lustre"), ("Lustre", "Compute")):
                self._allow(groups, source, target, EVERYTHING, "EFA")

        for cidr in network.clients:
            client = ec2.Peer.ipv4(cidr)
            head.add_ingress_rule(client, ec2.Port.tcp(22), "SSH from a client network")
            login.add_ingress_rule(client, ec2.Port.tcp(22), "SSH from a client network")
            if network.grafana:
                head.add_ingress_rule(client, ec2.Port.tcp(443), "Grafana from a client network")

        if keep_for_file_systems:
            for group in (lustre, openzfs):
                keep(cast(ec2.CfnSecurityGroup, group.node.default_child))
        self.head, self.compute, self.login, self.lustre, self.openzfs = head, compute, login, lustre, openzfs

    def _group(self, vpc: ec2.IVpc, name: str, description: str) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(self, name, vpc=vpc, description=description, allow_all_outbound=False)
        Tags.of(group).add("Name", f"{Stack.of(self).stack_name}-{name.lower()}")
        return group

    def _allow(
        self,
        groups: Mapping[str, str],
        source: str,
        target: str,
        ports: Iterable[Ports],
        purpose: str,
    ) -> None:
        """Open the ports on both sides: out of the source, into the target.

        The L2 methods would put the stack's path into the logical ids of the rules. The same rules would have other ids
        in a pipeline's stage, and CloudFormation would try to create them twice.
        """
        for port in ports:
            description = f"{purpose}: {source} to {target}"
            ec2.CfnSecurityGroupEgress(
                self,
                f"{source}To{target}{port.label}",
                group_id=groups[source],
                destination_security_group_id=groups[target],
                ip_protocol=port.protocol,
                from_port=port.first,
                to_port=port.last,
                description=description,
            )
            ec2.CfnSecurityGroupIngress(
                self,
                f"{target}From{source}{port.label}",
                group_id=groups[target],
                source_security_group_id=groups[source],
                ip_protocol=port.protocol,
                from_port=port.first,
                to_port=port.last,
                description=description,
            )


class ClosedDefaultSecurityGroup(Construct):
    """Revokes the two rules of a VPC's default group, so that instances without a group of their own reach nothing.

    Neither EC2 nor CloudFormation can create a VPC without these rules, hence the two API calls.
    """

    def __init__(self, scope: Construct, construct_id: str, *, group_id: str) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        group_arn = stack.format_arn(service="ec2", resource="security-group", resource_name=group_id)
        rules: dict[str, dict[str, object]] = {
            "Ingress": {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]},
            "Egress": {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        }
        log_group = logs.LogGroup(
            self, "Logs", retention=logs.RetentionDays.ONE_WEEK, removal_policy=RemovalPolicy.DESTROY
        )
        for direction, rule in rules.items():
            revocation = cr.AwsCustomResource(
                self,
                direction,
                resource_type="Custom::ClosedDefaultSecurityGroup",
                install_latest_aws_sdk=False,
                log_group=log_group,
                on_create=cr.AwsSdkCall(
                    service="EC2",
                    action=f"RevokeSecurityGroup{direction}",
                    parameters={"GroupId": group_id, "IpPermissions": [rule]},
                    physical_resource_id=cr.PhysicalResourceId.of(f"{direction.lower()}-closed"),
                    # The rule is gone already.
                    ignore_error_codes_matching=r"InvalidPermission\.NotFound",
                ),
                policy=cr.AwsCustomResourcePolicy.from_statements(
                    [iam.PolicyStatement(actions=[f"ec2:RevokeSecurityGroup{direction}"], resources=[group_arn])]
                ),
            )
            acknowledge(
                cast(IConstruct, revocation.grant_principal),
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]",
                "CDK makes this function and its role; the managed policy lets it write its own log and no more.",
            )
