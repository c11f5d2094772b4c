"""Security groups of the nodes and the file systems, and the VPC's default group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct, IConstruct

from settings.model.network import Network as NetworkSettings
from trainyard.nag import LAMBDA_LOGS_POLICY, acknowledge
from trainyard.retention import retain

# Protocol, first and last port of a rule, by EC2's names; -1 means all protocols.
Ports = tuple[str, int | None, int | None]
# LNET between clients and file servers, in both directions (FSx for Lustre guide, access control with a VPC).
_LUSTRE: tuple[Ports, ...] = (("tcp", 988, 988), ("tcp", 1018, 1023))
# rpcbind, NFS, and mountd, statd and lockd where FSx puts them (FSx for OpenZFS guide, access control with a VPC).
_NFS: tuple[Ports, ...] = tuple(
    (protocol, first, last) for first, last in ((111, 111), (2049, 2049), (20001, 20003)) for protocol in ("tcp", "udp")
)
_EVERYTHING: tuple[Ports, ...] = (("-1", None, None),)


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
        efa_storage: bool,
        keep_for_file_systems: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        head = self._group(vpc, "Head", "Head node: file systems and clients")
        compute = self._group(vpc, "Compute", "Compute nodes: EFA and file systems")
        login = self._group(vpc, "Login", "Login nodes: file systems and clients")
        lustre = self._group(vpc, "Lustre", "FSx for Lustre file systems")
        openzfs = self._group(vpc, "OpenZfs", "FSx for OpenZFS file system")

        named = {"Head": head, "Compute": compute, "Login": login, "Lustre": lustre, "OpenZfs": openzfs}
        self._ids = {name: group.security_group_id for name, group in named.items()}
        for node in ("Head", "Compute", "Login"):
            self._allow(node, "Lustre", _LUSTRE, "Lustre")
            # File servers connect to clients for lock callbacks.
            self._allow("Lustre", node, _LUSTRE, "Lustre")
            self._allow(node, "OpenZfs", _NFS, "NFS")
        self._allow("Lustre", "Lustre", _LUSTRE, "Lustre")

        # EFA requires rules that name the group itself, in both directions and for all protocols.
        self._allow("Compute", "Compute", _EVERYTHING, "EFA")
        if efa_storage:
            for source, target in (("Lustre", "Lustre"), ("Compute", "Lustre"), ("Lustre", "Compute")):
                self._allow(source, target, _EVERYTHING, "EFA")

        for cidr in network.clients:
            client = ec2.Peer.ipv4(cidr)
            head.add_ingress_rule(client, ec2.Port.tcp(22), "SSH from a client network")
            login.add_ingress_rule(client, ec2.Port.tcp(22), "SSH from a client network")

        if keep_for_file_systems:
            for group in (lustre, openzfs):
                retain(group.node.default_child, kept=True)
        self.head, self.compute, self.login, self.lustre, self.openzfs = head, compute, login, lustre, openzfs

    def _group(self, vpc: ec2.IVpc, name: str, description: str) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(self, name, vpc=vpc, description=description, allow_all_outbound=False)
        Tags.of(group).add("Name", f"{Stack.of(self).stack_name}-{name.lower()}")
        return group

    def _allow(self, source: str, target: str, ports: Iterable[Ports], purpose: str) -> None:
        """Open the ports on both sides: out of the source, into the target.

        The L2 methods would put the stack's path into the logical ids of the rules. The same rules would have other ids
        in a pipeline's stage, and CloudFormation would try to create them twice.
        """
        for protocol, first, last in ports:
            label = "All" if first is None else f"{protocol.capitalize()}{first}"
            rule: dict[str, Any] = {
                "ip_protocol": protocol,
                "from_port": first,
                "to_port": last,
                "description": f"{purpose}: {source} to {target}",
            }
            out, into = self._ids[source], self._ids[target]
            ec2.CfnSecurityGroupEgress(
                self, f"{source}To{target}{label}", group_id=out, destination_security_group_id=into, **rule
            )
            ec2.CfnSecurityGroupIngress(
                self, f"{target}From{source}{label}", group_id=into, source_security_group_id=out, **rule
            )


class ClosedDefaultSecurityGroup(Construct):
    """Revokes the two rules of a VPC's default group, so that instances without a group of their own reach nothing.

    Neither EC2 nor CloudFormation can create a VPC without these rules, hence the two API calls.
    """

    def __init__(self, scope: Construct, construct_id: str, *, group_id: str) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        group_arn = stack.format_arn(service="ec2", resource="security-group", resource_name=group_id)
        rules = {
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
            reason = "CDK makes this function and its role; the managed policy lets it write its own log and no more."
            acknowledge(cast(IConstruct, revocation.grant_principal), {LAMBDA_LOGS_POLICY: reason})
